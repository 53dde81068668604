"""Access rules: which principals may do what with topics, groups and the cluster.

A rule allows or denies one operation, for one principal or for all, on the resources of a literal name or a prefix. A
denial wins over every permission, and what no rule allows is denied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from hashlib import sha256
from typing import Any, Self

from attrs import define, field, frozen

from logd.errors import ConfigurationError
from logd.security.principals import ANONYMOUS, EVERYONE, check_principal

#: The one name of the resource type ``cluster``.
CLUSTER_NAME = "cluster"
#: The longest name or prefix of a resource.
MOST_CHARACTERS = 249
#: Answers that are remembered until the rules change.
MOST_REMEMBERED = 50_000


class Operation(Enum):
    """An operation on a resource. To read, write, delete or alter a resource implies to describe it."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    #: In rules only: every operation.
    ALL = "all"

    __hash__ = object.__hash__  # that of Enum is written in Python, and rights are asked for in each request

    @property
    def verb(self) -> str:
        """The operation in a sentence, as in ``may not write to topic 't'``."""
        return _VERBS.get(self.value, self.value)


_VERBS = {"write": "write to", "all": "do everything with"}


class ResourceType(Enum):
    """The kinds of resources."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"

    __hash__ = object.__hash__  # as above


class Effect(Enum):
    """The effect of a rule."""

    ALLOW = "allow"
    DENY = "deny"


class Match(Enum):
    """The comparison of a rule's name with that of a resource."""

    LITERAL = "literal"
    PREFIX = "prefix"


#: A permission for one of these includes DESCRIBE; a denial does not.
_IMPLY_DESCRIBE = frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER))


@frozen(order=False)
class AccessRule:
    """One rule. The literal name ``*`` stands for every resource of the type.

    Raises ConfigurationError for a name that is not allowed.
    """

    principal: str
    effect: Effect
    operation: Operation
    resource_type: ResourceType
    name: str
    match: Match = Match.LITERAL

    def __attrs_post_init__(self) -> None:
        if self.principal not in (EVERYONE, ANONYMOUS):
            check_principal(self.principal)
        if not 0 < len(self.name) <= MOST_CHARACTERS or not self.name.isprintable():
            raise ConfigurationError(
                f"{self.name[:300]!r} is not allowed as the name of a {self.resource_type.value} in a rule; allowed "
                f"are 1 to {MOST_CHARACTERS} printable characters"
            )
        if self.resource_type is ResourceType.CLUSTER and (self.name, self.match) != (CLUSTER_NAME, Match.LITERAL):
            raise ConfigurationError(f"the one resource of type cluster is called {CLUSTER_NAME!r}, not {self.name!r}")

    @property
    def id(self) -> str:
        """The name of the rule's node: equal rules have equal ids, so that a rule exists once."""
        return sha256(self.to_json()).hexdigest()[:32]

    def to_json(self) -> bytes:
        """Return the content of the rule's node."""
        content = {
            "principal": self.principal,
            "effect": self.effect.value,
            "operation": self.operation.value,
            "type": self.resource_type.value,
            "name": self.name,
            "match": self.match.value,
        }
        return json.dumps(content, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the content of a node. Raises ValueError, KeyError or ConfigurationError."""
        return cls(
            str(content["principal"]),
            Effect(content["effect"]),
            Operation(content["operation"]),
            ResourceType(content["type"]),
            str(content["name"]),
            Match(content["match"]),
        )

    def applies_to(self, operation: Operation, name: str) -> bool:
        """Return whether the rule speaks of an operation on a resource of its type."""
        if self.operation not in (operation, Operation.ALL) and not (
            operation is Operation.DESCRIBE and self.effect is Effect.ALLOW and self.operation in _IMPLY_DESCRIBE
        ):
            return False
        return self.matches(name)

    def matches(self, name: str) -> bool:
        """Return whether the rule speaks of a resource of its type with this name."""
        if self.match is Match.PREFIX:
            return name.startswith(self.name)
        return self.name in (name, EVERYONE)

    def __str__(self) -> str:
        """Return the rule as a person says it."""
        kind = self.resource_type.value
        what = kind if self.resource_type is ResourceType.CLUSTER else f"{kind} {self.name}"
        prefix = "*" if self.match is Match.PREFIX else ""
        return f"{self.effect.value} {self.principal} to {self.operation.verb} {what}{prefix}"


@define(eq=False)
class _RulesOfOne:
    """The rules of one principal for resources of one type, found by a resource's name without looking at all."""

    _named: dict[str, list[AccessRule]] = field(factory=dict, init=False)
    _prefixes: dict[str, list[AccessRule]] = field(factory=dict, init=False)
    #: The different lengths of prefixes, at most MOST_CHARACTERS.
    _lengths: set[int] = field(factory=set, init=False)
    #: The operations that some rule allows with some resource.
    allowed: set[Operation] = field(factory=set, init=False)

    def add(self, rule: AccessRule) -> None:
        """Add a rule."""
        if rule.match is Match.PREFIX:
            self._prefixes.setdefault(rule.name, []).append(rule)
            self._lengths.add(len(rule.name))
        else:
            self._named.setdefault(rule.name, []).append(rule)
        if rule.effect is Effect.ALLOW:
            self.allowed.add(rule.operation)

    def matching(self, name: str) -> Iterator[AccessRule]:
        """Yield the rules that speak of a resource with this name."""
        yield from self._named.get(name, ())
        if name != EVERYONE:
            yield from self._named.get(EVERYONE, ())
        for length in self._lengths:
            if length <= len(name):
                yield from self._prefixes.get(name[:length], ())


def _tupled(rules: Iterable[AccessRule]) -> tuple[AccessRule, ...]:
    return tuple(rules)


@define(eq=False)
class AccessRules:
    """The rules of a cluster, indexed for questions. Answers are remembered, within a bound, as rules change rarely."""

    rules: tuple[AccessRule, ...] = field(factory=tuple, converter=_tupled)
    _by_resource: dict[tuple[str, ResourceType], _RulesOfOne] = field(factory=dict, init=False)
    _known: dict[tuple[str, Operation, ResourceType, str], bool] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for rule in self.rules:
            key = rule.principal, rule.resource_type
            of_one = self._by_resource.get(key)
            if of_one is None:
                of_one = self._by_resource[key] = _RulesOfOne()
            of_one.add(rule)

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def allows(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Return whether a principal may do this: some rule allows it, and none denies it."""
        key = (principal, operation, kind, name)
        known = self._known.get(key)
        if known is None:
            known = self._decide(principal, operation, kind, name)
            if len(name) > MOST_CHARACTERS:  # of no resource: strangers would fill the memory with such names
                return known
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def allows_some(self, principal: str, operation: Operation, kind: ResourceType) -> bool:
        """Return whether a permission exists for any resource of the type at all; denials are not weighed."""
        return any(
            each in of_one.allowed for of_one in self._of(principal, kind) for each in (operation, Operation.ALL)
        )

    def deciding(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> AccessRule | None:
        """Return the rule that decides a question; None where no rule speaks of it, which means no."""
        found = [
            rule
            for of_one in self._of(principal, kind)
            for rule in of_one.matching(name)
            if rule.applies_to(operation, name)
        ]
        denials = [rule for rule in found if rule.effect is Effect.DENY]
        return next(iter(denials or found), None)

    def _decide(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        rule = self.deciding(principal, operation, kind, name)
        return rule is not None and rule.effect is Effect.ALLOW

    def _of(self, principal: str, kind: ResourceType) -> list[_RulesOfOne]:
        found = (self._by_resource.get((each, kind)) for each in (principal, EVERYONE))
        return [each for each in found if each is not None]
