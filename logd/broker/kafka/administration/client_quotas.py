"""Kafka's DescribeClientQuotas and AlterClientQuotas, over the quotas in the coordination tree.

Kafka's producer_byte_rate and consumer_byte_rate of a user are ``bytes.in`` and ``bytes.out`` here; those of the
default user are the limits of ``*``. Kafka knows no names for the other limits, and its own others mean nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.error_codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.coord.errors import CoordinationError
from logd.coord.registries.quotas import change_quota, read_quotas
from logd.errors import ConfigurationError, LogdError
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.security.principals import ANONYMOUS, EVERYONE
from logd.security.quotas import Quota, check_owner

DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = APIS[48], APIS[49]
#: Entries of one request that are changed.
MOST_ENTRIES = 1000

_USER = "user"
_EXACT, _DEFAULT, _ANY = range(3)
#: The fields of a quota by Kafka's keys.
_KEYS = {"producer_byte_rate": "bytes_in", "consumer_byte_rate": "bytes_out"}
_KAFKA_ANONYMOUS = "ANONYMOUS"


class KafkaClientQuotas:
    """These requests of one connection. Each change and each refusal is in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._tree = broker.kafka_groups.get().coordination
        self._turns = broker.turns
        self._log = broker.administration_log
        self._rights = rights

    async def describe_client_quotas(self, request: Any) -> Any:
        """Return the byte rates of the users that are asked for."""
        kind = DESCRIBE_CLIENT_QUOTAS.response_class.EntryData
        outcome, entries = ChangeOutcome(), []
        try:
            self._rights.check_cluster(Operation.DESCRIBE)
            quotas = await read_quotas(self._tree)
            for user in _wanted(request.components, bool(request.strict), quotas):
                values = [
                    kind.ValueData(key=key, value=float(rate))
                    for key, name in _KEYS.items()
                    if (rate := getattr(quotas[user], name)) is not None
                ]
                entity = kind.EntityData(entity_type=_USER, entity_name=_kafka_name(user))
                if values:
                    entries.append(kind(entity=[entity], values=values))
        except CoordinationError as error:
            outcome = ChangeOutcome(COORDINATOR_NOT_AVAILABLE, f"the coordination tree does not answer: {error}")
        except (Refused, LogdError) as error:
            outcome = ChangeOutcome(code_of(error), str(error))
        return DESCRIBE_CLIENT_QUOTAS.response(
            throttle_time_ms=0,
            error_code=outcome.code,
            error_message=outcome.text,
            entries=None if outcome.code else entries,
        )

    async def alter_client_quotas(self, request: Any) -> Any:
        """Set and remove byte rates of users."""
        kind = ALTER_CLIENT_QUOTAS.response_class.EntryData
        results, turns = [], self._turns()
        for number, entry in enumerate(request.entries):
            if turns.over:
                await turns.rest()
            name = ", ".join(f"{each.entity_type} {each.entity_name or 'by default'}" for each in entry.entity)
            work = self._alter(entry, bool(request.validate_only), number)
            outcome = await outcome_of(work, self._log, self._rights.requester, "change quota", name)
            entity = [
                kind.EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
            ]
            results.append(kind(error_code=outcome.code, error_message=outcome.text, entity=entity))
        return ALTER_CLIENT_QUOTAS.response(throttle_time_ms=0, entries=results)

    async def _alter(self, entry: Any, validate_only: bool, number: int) -> None:
        self._rights.check_cluster(Operation.ALTER)
        if number >= MOST_ENTRIES:
            raise Refused(INVALID_REQUEST, f"a request may change {MOST_ENTRIES} quotas")
        user = _user_of(entry.entity)
        changes = _changes(entry.ops)
        if validate_only:
            return
        try:
            quota = await change_quota(self._tree, user, lambda quota: evolve(quota, **changes))
        except CoordinationError as error:
            text = f"the coordination tree does not answer: {error}"
            raise Refused(COORDINATOR_NOT_AVAILABLE, text) from error
        self._log.record(self._rights.requester, "change quota", user, limits=quota.limits())


def _user_of(entity: Iterable[Any]) -> str:
    found = [(each.entity_type, each.entity_name) for each in entity]
    if len(found) != 1 or found[0][0] != _USER:
        raise Refused(INVALID_REQUEST, f"quotas are those of users, each by itself; {found} cannot have one")
    name = found[0][1]
    if name is None:
        return EVERYONE
    if name == EVERYONE:
        raise Refused(INVALID_REQUEST, "the user '*' is not allowed: the default of all users has no name")
    try:
        return check_owner(ANONYMOUS if name == _KAFKA_ANONYMOUS else name)
    except ConfigurationError as error:
        raise Refused(INVALID_REQUEST, str(error)) from error


def _kafka_name(user: str) -> str | None:
    return None if user == EVERYONE else _KAFKA_ANONYMOUS if user == ANONYMOUS else user


def _changes(operations: Iterable[Any]) -> dict[str, int | None]:
    """Return the fields that change. Raises Refused for a key or a value that is not allowed."""
    changes: dict[str, int | None] = {}
    for each in operations:
        if each.key not in _KEYS:
            raise Refused(
                INVALID_REQUEST,
                f"{each.key!r} is not known here; known are {', '.join(_KEYS)}, and logd quotas sets other limits",
            )
        name = _KEYS[each.key]
        if name in changes:
            raise Refused(INVALID_REQUEST, f"{each.key} is named twice")
        if not each.remove and each.value != each.value // 1:  # also for NaN and infinity
            raise Refused(INVALID_REQUEST, f"{each.key} = {each.value} is not a whole number")
        changes[name] = None if each.remove else int(each.value)
    try:
        Quota(**changes)
    except ConfigurationError as error:
        raise Refused(INVALID_REQUEST, str(error)) from error
    return changes


def _wanted(components: Iterable[Any], strict: bool, quotas: Iterable[str]) -> list[str]:
    """Return the users that pass a filter. Quotas of clients by their ids do not exist here."""
    wanted = sorted(quotas)
    parts = [(each.entity_type, each.match_type, each.match) for each in components]
    for kind, match, name in parts:
        if match not in (_EXACT, _DEFAULT, _ANY):
            raise Refused(INVALID_REQUEST, f"there is no kind of match {match}")
        if kind != _USER:
            return []
        if match == _DEFAULT:
            wanted = [user for user in wanted if user == EVERYONE]
        elif match == _EXACT:
            wanted = [user for user in wanted if user != EVERYONE and _kafka_name(user) == name]
    return [] if strict and not parts else wanted
