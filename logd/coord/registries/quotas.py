"""The quotas in the coordination tree: a node for each user that has one, and one for all others.

/security/quotas/<name>     {"bytes.in": 1000000, "bytes.out": 2000000, "connections": 100, "requests": 200,
                             "topics": 10, "partitions": 100}
/security/quotas/*          the limits of users that have none of their own
"""

from __future__ import annotations

from collections.abc import Callable

from logd.checkedjson import excerpt, load_json
from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.child_cache import ChildCache
from logd.errors import ConfigurationError
from logd.interfaces import Clock
from logd.security.quotas import NO_QUOTA, Quota, check_owner


def decode_quota(name: str, data: bytes) -> Quota:
    """Decode the node ``name``; raise ValueError, and nothing else, for a value that is no quota."""
    try:
        check_owner(name)
        return Quota.from_json(load_json(data))
    except (KeyError, TypeError, AttributeError, ConfigurationError) as error:
        raise ValueError(f"not a quota: {excerpt(data)} ({error})") from error


async def change_quota(coordination: ICoordination, principal: str, change: Callable[[Quota], Quota]) -> Quota:
    """Replace a user's quota by ``change(quota)``, which may be called several times; return the new one.

    A quota without limits is removed. Raises CoordinationError, and what ``change`` raises. A node that is no quota
    counts as one without limits.
    """
    path = paths.quota(principal)
    while True:
        try:
            data, stat = await coordination.get(path)
        except NoNode:
            new = change(NO_QUOTA)
            if new == NO_QUOTA:
                return new
            try:
                await coordination.create(path, new.to_json(), makepath=True)
            except NodeExists:
                continue
            return new
        try:
            old = decode_quota(principal, data)
        except ValueError:
            old = NO_QUOTA
        new = change(old)
        try:
            if new == NO_QUOTA:
                await coordination.delete(path, stat.version)
            else:
                await coordination.set(path, new.to_json(), stat.version)
        except (BadVersion, NoNode):
            continue
        return new


async def read_quotas(
    coordination: ICoordination, unreadable: Callable[[str, ValueError], None] = lambda path, error: None
) -> dict[str, Quota]:
    """Read all quotas. Raises CoordinationError; ``unreadable(path, error)`` is called for each node that is none."""
    try:
        names = await coordination.get_children(paths.QUOTAS)
    except NoNode:
        return {}
    quotas = {}
    for name in sorted(names):
        path = f"{paths.QUOTAS}/{name}"
        try:
            quotas[name] = decode_quota(name, (await coordination.get(path))[0])
        except NoNode:
            continue  # removed since the list was read
        except ValueError as error:
            unreadable(path, error)
    return quotas


def watch_quotas(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> ChildCache[Quota]:
    """Return a cache of the quotas by their users, not started yet."""
    return ChildCache(coordination, clock, paths.QUOTAS, decode_quota, changed)
