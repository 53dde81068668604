"""The access rules in the coordination tree: a node for each rule, under an id that equal rules share.

/security/rules/<id>    {"principal": "alice", "effect": "allow", "operation": "read", "type": "topic", "name": "t",
                         "match": "literal"}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logd.checkedjson import excerpt, load_json
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.child_cache import ChildCache
from logd.errors import ConfigurationError
from logd.interfaces import Clock
from logd.security.access_rules import AccessRule


def decode_rule(name: str, data: bytes) -> AccessRule:
    """Decode the node ``name``; raise ValueError, and nothing else, for a value that is no rule."""
    try:
        return AccessRule.from_json(load_json(data))
    except (KeyError, TypeError, ConfigurationError) as error:
        raise ValueError(f"not an access rule: {excerpt(data)}") from error


async def add_rule(coordination: ICoordination, rule: AccessRule) -> bool:
    """Add a rule; return False if it exists already. Raises CoordinationError."""
    try:
        await coordination.create(paths.access_rule(rule.id), rule.to_json(), makepath=True)
    except NodeExists:
        return False
    return True


async def remove_rule(coordination: ICoordination, rule: AccessRule) -> bool:
    """Remove a rule; return False if there is none. Raises CoordinationError."""
    try:
        await coordination.delete(paths.access_rule(rule.id))
    except NoNode:
        return False
    return True


async def read_rules(
    coordination: ICoordination, unreadable: Callable[[str, ValueError], None] = lambda path, error: None
) -> list[AccessRule]:
    """Read all rules. Raises CoordinationError; ``unreadable(path, error)`` is called for each node that is none."""
    try:
        names = await coordination.get_children(paths.ACCESS_RULES)
    except NoNode:
        return []
    rules = []
    for name in names:
        path = paths.access_rule(name)
        try:
            rules.append(decode_rule(name, (await coordination.get(path))[0]))
        except NoNode:
            continue  # removed since the list was read
        except ValueError as error:
            unreadable(path, error)
    return sorted_rules(rules)


def sorted_rules(rules: Iterable[AccessRule]) -> list[AccessRule]:
    """Return rules in the order in which people read them."""
    return sorted(
        rules,
        key=lambda rule: (
            rule.principal,
            rule.resource_type.value,
            rule.name,
            rule.match.value,
            rule.effect.value,
            rule.operation.value,
        ),
    )


def watch_rules(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> ChildCache[AccessRule]:
    """Return a cache of the rules by their ids, not started yet."""
    return ChildCache(coordination, clock, paths.ACCESS_RULES, decode_rule, changed)
