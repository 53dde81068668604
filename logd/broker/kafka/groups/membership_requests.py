"""Kafka's FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    INVALID_SESSION_TIMEOUT,
    NOT_COORDINATOR,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)
from logd.broker.kafka.groups.group_rights import GroupRefused, GroupRights
from logd.broker.kafka.groups.members import Caller, GroupProtocol, JoinAnswer, JoinRequest, SyncAnswer
from logd.broker.requests.core import BrokerCore
from logd.checkedjson import excerpt
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.large_responses import KafkaJoined
from logd.protocol.requests.fields import shorten_text
from logd.security.access_rules import Operation

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = (APIS[number] for number in range(10, 15))

#: The kinds of keys that have a coordinator in Kafka.
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
#: From these versions on: a rebalance timeout of its own, an id before a member joins, a list of those that leave.
_REBALANCE_TIMEOUT_FROM, _TWO_STEPS_FROM, _LEAVING_LIST_FROM = 1, 4, 3
#: Seconds; Kafka's clients ask for at most 2^31 milliseconds, and a year is as good.
_LONGEST_REBALANCE = 365 * 86400.0


def likely_coordinator(group: str, brokers: list[int]) -> int:
    """Return the broker where the clients of a group that no broker coordinates should begin: the same for all."""
    return brokers[crc32(group.encode()) % len(brokers)]


class MembershipRequests:
    """These requests of one connection."""

    _log = Logger()

    def __init__(
        self,
        broker: BrokerCore,
        caller: Caller,
        addresses: Callable[[], dict[int, tuple[str, int]]],
        rights: GroupRights,
    ) -> None:
        self._groups = broker.kafka_groups.get()
        self._turns = broker.turns
        self._rights = rights
        self._caller = caller
        self._addresses = addresses
        #: Calls that tell groups of the loss of this connection, on which requests wait.
        self._waiting: dict[Callable[[], None], None] = {}
        self._lost = False
        #: True once the log says that this client wants transactions: it may ask again as often as it likes.
        self._wants_transactions = False

    async def find_coordinator(self, request: Any) -> Any:
        """Return the broker that coordinates a group, or should.

        A transactional id is refused by the code that ends a producer of every client at once. librdkafka asks again
        after most other codes until its time is over, and would not say why.
        """
        error, text, node = 0, None, -1
        host, port = "", -1
        kind = getattr(request, "key_type", _GROUP_KEY)
        if kind == _TRANSACTION_KEY:
            error = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            text = "there are no transactions: leave transactional.id out"
            if not self._wants_transactions:
                self._wants_transactions = True
                self._log.warn(
                    "{client} at {host} asked for the coordinator of the transactional id {name}: {text}",
                    client=excerpt(self._caller.client_id), host=self._caller.host, name=excerpt(request.key),
                    text=text,
                )  # fmt: skip
        elif kind != _GROUP_KEY:
            error, text = INVALID_REQUEST, "only groups have coordinators here"
        else:
            addresses = self._addresses()
            try:
                self._rights.check(Operation.DESCRIBE, request.key)
                found = await self._groups.find(request.key)
                node = likely_coordinator(request.key, sorted(addresses)) if found is None else found
                if node in addresses:
                    host, port = addresses[node]
                else:
                    error, node = COORDINATOR_NOT_AVAILABLE, -1
                    text = f"broker {found} coordinates the group, and has no listener for this client"
            except GroupRefused as refused:
                error, text = refused.code, shorten_text(str(refused))
        return FIND_COORDINATOR.response(
            throttle_time_ms=0, error_code=error, error_message=text, node_id=node, host=host, port=port
        )

    async def join(self, request: Any) -> KafkaJoined:
        """Let a member join its group; returns once the next generation begins."""
        limits, seconds = self._groups.limits, request.session_timeout_ms / 1000
        try:
            self._rights.check(Operation.READ, request.group_id)
            if not limits.session_min <= seconds <= limits.session_max:
                raise GroupRefused(INVALID_SESSION_TIMEOUT)
            rebalance = request.rebalance_timeout_ms / 1000 if request.version >= _REBALANCE_TIMEOUT_FROM else seconds
            asked = JoinRequest(
                request.member_id,
                request.group_instance_id,
                seconds,
                min(max(rebalance, 0.0), _LONGEST_REBALANCE),
                request.protocol_type,
                tuple([GroupProtocol(each.name, bytes(each.metadata)) for each in request.protocols]),
                self._caller.client_id,
                self._caller.host,
                request.version >= _TWO_STEPS_FROM,
            )
            answer = await self._groups.join(request.group_id, asked, self._waits)
        except GroupRefused as refused:
            answer = JoinAnswer(refused.code, request.member_id)
        return KafkaJoined(
            answer.error, answer.generation, answer.protocol, answer.leader, answer.member_id, answer.members
        )

    async def sync(self, request: Any) -> Any:
        """Return a member's assignment; returns once the leader has sent those of all."""
        try:
            self._rights.check(Operation.READ, request.group_id)
            waiting = self._groups.sync(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                {each.member_id: bytes(each.assignment) for each in request.assignments},
                self._waits,
            )
            del request  # a megabyte, perhaps: the answer may take minutes
            answer = await waiting
        except GroupRefused as refused:
            answer = SyncAnswer(refused.code)
        return SYNC_GROUP.response(throttle_time_ms=0, error_code=answer.error, assignment=answer.assignment)

    async def heartbeat(self, request: Any) -> Any:
        """Note that a member lives."""
        try:
            self._rights.check(Operation.READ, request.group_id)
            group = await self._groups.member_of(request.group_id)
            error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
        except GroupRefused as refused:
            error = refused.code
        return HEARTBEAT.response(throttle_time_ms=0, error_code=error)

    async def leave(self, request: Any) -> Any:
        """Remove members; returns once the group, if it has none left, is free for clients of other kinds."""
        kind = LEAVE_GROUP.response_class.MemberResponse
        many = request.version >= _LEAVING_LIST_FROM
        asked = (
            [(each.member_id, each.group_instance_id) for each in request.members]
            if many
            else [(request.member_id, None)]
        )
        error = 0
        errors: list[int] = []
        turns = self._turns()
        try:
            self._rights.check(Operation.READ, request.group_id)
            group = await self._groups.member_of(request.group_id)
            for each in asked:
                if turns.over:
                    await turns.rest()
                    if group.roster.is_given_up:
                        raise GroupRefused(NOT_COORDINATOR)
                errors.append(group.leave(*each))
            await self._groups.released(request.group_id)
        except GroupRefused as refused:
            if many and refused.code == UNKNOWN_MEMBER_ID:
                errors = [refused.code] * len(asked)
            else:
                error = refused.code
        members = []
        for (member_id, instance_id), code in zip(asked, errors, strict=False):
            if turns.over:
                await turns.rest()
            members.append(kind(member_id=member_id, group_instance_id=instance_id, error_code=code))
        return LEAVE_GROUP.response(
            throttle_time_ms=0, error_code=error if error or many else errors[0], members=members
        )

    def lost(self) -> None:
        """Stop waiting on behalf of the lost connection."""
        self._lost = True
        for forget in tuple(self._waiting):
            forget()

    @contextmanager
    def _waits(self, forget: Callable[[], None]) -> Iterator[None]:
        self._waiting[forget] = None
        if self._lost:  # while the group was claimed, or looked for
            forget()
        try:
            yield
        finally:
            del self._waiting[forget]
