"""Kafka's DescribeAcls, CreateAcls and DeleteAcls, over the access rules in the coordination tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from attrs import frozen

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.error_codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.coord.errors import CoordinationError
from logd.coord.registries.access_rules import add_rule, read_rules, remove_rule
from logd.deferreds.gathering import for_each
from logd.errors import ConfigurationError, LogdError
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import CLUSTER_NAME, AccessRule, Effect, Match, Operation, ResourceType
from logd.security.principals import ANONYMOUS, EVERYONE

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = APIS[29], APIS[30], APIS[31]
#: Rules of one request, and those of one request that are written at a time.
MOST_RULES = 2000
AT_ONCE = 50

#: Kafka's numbers. In a filter, 1 stands for any.
_ANY = 1
_TYPES = {2: ResourceType.TOPIC, 3: ResourceType.GROUP, 4: ResourceType.CLUSTER}
_OPERATIONS = {
    2: Operation.ALL,
    3: Operation.READ,
    4: Operation.WRITE,
    5: Operation.CREATE,
    6: Operation.DELETE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
}
#: Operations of Kafka that are parts of others here, or need no right.
_OTHER_OPERATIONS = {
    9: "ClusterAction is for Kafka's own brokers",
    10: "DescribeConfigs is part of Describe here",
    11: "AlterConfigs is part of Alter here",
    12: "IdempotentWrite needs no rule here: whoever may write to a topic may do so idempotently",
}
_EFFECTS = {2: Effect.DENY, 3: Effect.ALLOW}
_MATCHES = {3: Match.LITERAL, 4: Match.PREFIX}
#: In a filter: every rule that speaks of the resource with that name.
_MATCH = 2
_EVERY_HOST = "*"
_KAFKA_CLUSTER = "kafka-cluster"
_USER = "User:"
_KAFKA_ANONYMOUS = "ANONYMOUS"

T = TypeVar("T")
_NUMBERS: dict[Any, int] = {
    value: number for table in (_TYPES, _OPERATIONS, _EFFECTS, _MATCHES) for number, value in table.items()
}


def rule_of(each: Any) -> AccessRule:
    """Return the rule that Kafka's fields describe. Raises Refused for what no rule can say here."""
    if each.host != _EVERY_HOST:
        raise Refused(
            INVALID_REQUEST, f"host {each.host!r} is not allowed: rules hold wherever a client connects from; give '*'"
        )
    if each.operation in _OTHER_OPERATIONS:
        raise Refused(INVALID_REQUEST, _OTHER_OPERATIONS[each.operation])
    kind = _known(_TYPES, each.resource_type, "resource type")
    name = each.resource_name
    if kind is ResourceType.CLUSTER and name == _KAFKA_CLUSTER:
        name = CLUSTER_NAME
    try:
        return AccessRule(
            _principal(each.principal),
            _known(_EFFECTS, each.permission_type, "permission type"),
            _known(_OPERATIONS, each.operation, "operation"),
            kind,
            name,
            _known(_MATCHES, each.resource_pattern_type, "pattern type"),
        )
    except ConfigurationError as error:
        raise Refused(INVALID_REQUEST, str(error)) from error


@frozen
class RuleFilter:
    """Kafka's filter of rules; None stands for any."""

    type: ResourceType | None
    name: str | None
    #: True: rules that speak of the resource ``name``, whatever their pattern; else only those with this pattern.
    matching: bool
    match: Match | None
    principal: str | None
    operation: Operation | None
    effect: Effect | None
    #: False for a filter that no rule here can pass, such as one for a host.
    possible: bool = True

    @classmethod
    def of(cls, fields: Any) -> RuleFilter:
        """Read the fields of a request. Raises Refused for numbers that Kafka does not have."""
        host = fields.host_filter
        name, kind = fields.resource_name_filter, _filtered(_TYPES, fields.resource_type_filter, {5, 6, 7})
        if name == _KAFKA_CLUSTER and fields.resource_type_filter in (_ANY, 4):
            name = CLUSTER_NAME
        operation = _filtered(_OPERATIONS, fields.operation, {*_OTHER_OPERATIONS, 13, 14})
        pattern = fields.pattern_type_filter
        return cls(
            kind,
            name,
            pattern == _MATCH,
            None if pattern == _MATCH else _filtered(_MATCHES, pattern, set()),
            None if fields.principal_filter is None else _principal(fields.principal_filter),
            operation,
            _filtered(_EFFECTS, fields.permission_type, set()),
            host in (None, _EVERY_HOST)
            and (kind is not None or fields.resource_type_filter == _ANY)
            and (operation is not None or fields.operation == _ANY),
        )

    def passes(self, rule: AccessRule) -> bool:
        """Return whether the rule is meant."""
        return (
            self.possible
            and self.type in (None, rule.resource_type)
            and self.match in (None, rule.match)
            and self.principal in (None, rule.principal)
            and self.operation in (None, rule.operation)
            and self.effect in (None, rule.effect)
            and (self.name is None or (rule.matches(self.name) if self.matching else rule.name == self.name))
        )


class KafkaAccessRules:
    """These requests of one connection. Each change and each refusal is in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._tree = broker.kafka_groups.get().coordination
        self._log = broker.administration_log
        self._rights = rights

    async def describe_acls(self, request: Any) -> Any:
        """Return the rules that pass a filter, by their resources."""
        kind = DESCRIBE_ACLS.response_class.DescribeAclsResource
        outcome, found = ChangeOutcome(), []
        try:
            self._rights.check_cluster(Operation.DESCRIBE)
            found = await self._passing(RuleFilter.of(request))
        except (Refused, LogdError) as error:
            outcome = _outcome_of(error)
        resources: dict[tuple[ResourceType, str, Match], list[Any]] = {}
        for rule in found:
            resources.setdefault((rule.resource_type, rule.name, rule.match), []).append(
                kind.AclDescription(
                    principal=_kafka_principal(rule.principal),
                    host=_EVERY_HOST,
                    operation=_NUMBERS[rule.operation],
                    permission_type=_NUMBERS[rule.effect],
                )
            )
        return DESCRIBE_ACLS.response(
            throttle_time_ms=0,
            error_code=outcome.code,
            error_message=outcome.text,
            resources=[
                kind(
                    resource_type=_NUMBERS[of],
                    resource_name=_kafka_name(of, name),
                    pattern_type=_NUMBERS[match],
                    acls=each,
                )
                for (of, name, match), each in resources.items()
            ],
        )

    async def create_acls(self, request: Any) -> Any:
        """Add rules; those that exist already stay as they are."""

        async def create(each: Any) -> None:
            self._rights.check_cluster(Operation.ALTER)
            rule = rule_of(each)
            if await _on_tree(add_rule(self._tree, rule)):
                self._log.record(self._rights.requester, "add access rule", str(rule))

        outcomes = await self._each(request.creations, create, "add access rule")
        kind = CREATE_ACLS.response_class.AclCreationResult
        results = [kind(error_code=each.code, error_message=each.text) for each in outcomes]
        return CREATE_ACLS.response(throttle_time_ms=0, results=results)

    async def delete_acls(self, request: Any) -> Any:
        """Remove the rules that pass one of the filters."""
        kind = DELETE_ACLS.response_class.DeleteAclsFilterResult
        removed: dict[int, list[AccessRule]] = {}

        async def delete(numbered: tuple[int, Any]) -> None:
            number, fields = numbered
            self._rights.check_cluster(Operation.ALTER)
            for rule in await self._passing(RuleFilter.of(fields)):
                if await _on_tree(remove_rule(self._tree, rule)):
                    removed.setdefault(number, []).append(rule)
                    self._log.record(self._rights.requester, "remove access rule", str(rule))

        outcomes = await self._each(list(enumerate(request.filters)), delete, "remove access rule", 1)
        return DELETE_ACLS.response(
            throttle_time_ms=0,
            filter_results=[
                kind(
                    error_code=outcome.code,
                    error_message=outcome.text,
                    matching_acls=[
                        kind.DeleteAclsMatchingAcl(
                            error_code=0,
                            error_message=None,
                            resource_type=_NUMBERS[rule.resource_type],
                            resource_name=_kafka_name(rule.resource_type, rule.name),
                            pattern_type=_NUMBERS[rule.match],
                            principal=_kafka_principal(rule.principal),
                            host=_EVERY_HOST,
                            operation=_NUMBERS[rule.operation],
                            permission_type=_NUMBERS[rule.effect],
                        )
                        for rule in removed.get(number, ())
                    ],
                )
                for number, outcome in enumerate(outcomes)
            ],
        )

    async def _each(
        self, items: list[Any], work: Callable[[Any], Any], what: str, at_once: int = AT_ONCE
    ) -> list[ChangeOutcome]:
        """Do the work for each item, some at a time; return the outcomes in order."""
        outcomes = [ChangeOutcome()] * len(items)

        async def one(numbered: tuple[int, Any]) -> None:
            number, item = numbered
            if number >= MOST_RULES:
                outcomes[number] = ChangeOutcome(INVALID_REQUEST, f"one request may have {MOST_RULES} rules or filters")
            else:
                outcomes[number] = await outcome_of(work(item), self._log, self._rights.requester, what, "")

        await for_each(enumerate(items), one, max(min(at_once, len(items)), 1))
        return outcomes

    async def _passing(self, wanted: RuleFilter) -> list[AccessRule]:
        return [rule for rule in await _on_tree(read_rules(self._tree)) if wanted.passes(rule)]


async def _on_tree(work: Any) -> Any:
    """Wait for work on the tree. Raises Refused if the tree cannot be reached."""
    try:
        return await work
    except CoordinationError as error:
        raise Refused(COORDINATOR_NOT_AVAILABLE, f"the coordination tree does not answer: {error}") from error


def _outcome_of(error: Exception) -> ChangeOutcome:
    return ChangeOutcome(code_of(error), str(error))


def _known(table: dict[int, T], number: int, what: str) -> T:
    found = table.get(number)
    if found is None:
        allowed = ", ".join(f"{key} ({getattr(value, 'value', value)})" for key, value in table.items())
        raise Refused(INVALID_REQUEST, f"{what} {number} is not known here; allowed is {allowed}")
    return found


def _filtered(table: dict[int, T], number: int, others: Iterable[int]) -> T | None:
    """Return the value to filter by, None for any, or for one of Kafka's that no rule here has."""
    return None if number == _ANY or number in others else _known(table, number, "filter")


def _principal(text: str) -> str:
    if not text.startswith(_USER):
        raise Refused(INVALID_REQUEST, f"principal {text!r} is not allowed; allowed is User:NAME, or User:* for all")
    name = text.removeprefix(_USER)
    return ANONYMOUS if name == _KAFKA_ANONYMOUS else EVERYONE if name == EVERYONE else name


def _kafka_principal(name: str) -> str:
    return _USER + (_KAFKA_ANONYMOUS if name == ANONYMOUS else name)


def _kafka_name(kind: ResourceType, name: str) -> str:
    return _KAFKA_CLUSTER if kind is ResourceType.CLUSTER else name
