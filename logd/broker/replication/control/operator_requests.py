"""Handlers of the requests of operators about replicas; changes stand in the log of administration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.security.rights import Rights
from logd.coord.errors import CoordinationError
from logd.errors import AdministrationDisabled, CoordinationUnavailable, LogdError, UnknownError, WireError
from logd.protocol.requests.replicas.describe_replicas import (
    DescribeReplicas,
    DescribeReplicasResponse,
    DescribeReplicasResponseV1,
    DescribeReplicasV1,
)
from logd.protocol.requests.replicas.operations import (
    DrainBroker,
    DrainBrokerResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ElectLeadersResponseV1,
    ElectLeadersV1,
    MovedPartition,
    Reassign,
    ReassignResponse,
)
from logd.security.access_rules import Operation

if TYPE_CHECKING:
    from logd.broker.requests.core import BrokerCore
    from logd.topic import TopicEntry

_log = Logger()
R = TypeVar("R")


class OperatorRequests:
    """The requests of one connection. Each but DescribeReplicas needs the right to alter the cluster."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    def reassign(self, request: Reassign) -> Deferred[ReassignResponse]:
        """Plan, ask for, or cancel other replicas of a topic."""
        return self._answered(self._reassign(request), ReassignResponse)

    async def _reassign(self, request: Reassign) -> ReassignResponse:
        operations, topic = self._broker.operations, request.topic
        if request.plan_only:
            self._rights.check_topic(Operation.DESCRIBE, topic)
            entry, moved = await self._planned(request)
            return ReassignResponse(0, entry.uuid, tuple(moved))

        async def change() -> ReassignResponse:
            self._check("reassign replicas")
            if request.cancel:
                return ReassignResponse(0, operations.entry(topic).uuid, tuple(await operations.cancel(topic)))
            entry, moved = await self._planned(request)
            await operations.reassign(topic, entry, moved, max(request.rate, 0))
            return ReassignResponse(0, entry.uuid, tuple(moved))

        action = "cancel reassignment" if request.cancel else "reassign replicas"
        return await self._recorded(
            action, topic, change, lambda answer: {str(each.partition): list(each.wanted) for each in answer.moved}
        )

    async def _planned(self, request: Reassign) -> tuple[TopicEntry, list[MovedPartition]]:
        operations = self._broker.operations
        entry = operations.entry(request.topic, request.uuid)
        pending = await operations.pending_of(request.topic, entry)
        if request.placed:
            return entry, operations.check_placed(entry, request.placed, pending)
        draining = await operations.draining()
        return entry, operations.plan(entry, request.brokers, request.replicas, pending, draining)

    def elect(self, request: ElectLeaders) -> Deferred[ElectLeadersResponse]:
        """Ask for elections of a topic's leaders, or withdraw them."""
        response = ElectLeadersResponseV1 if isinstance(request, ElectLeadersV1) else ElectLeadersResponse

        async def change() -> ElectLeadersResponse:
            self._check("elect leaders")
            wanted = dict(request.partitions)
            numbers = await self._broker.operations.elect(
                request.topic, request.uuid, wanted, request.unclean, request.withdraw
            )
            return response(0, partitions=numbers)

        action = "elect leaders uncleanly" if request.unclean else "elect preferred leaders"
        if request.withdraw:
            action = "withdraw elections"
        working = self._recorded(action, request.topic, change, lambda answer: {"partitions": list(answer.partitions)})
        return self._answered(working, response)

    def drain(self, request: DrainBroker) -> Deferred[DrainBrokerResponse]:
        """Let a broker lead nothing, or let it lead again."""

        async def change() -> DrainBrokerResponse:
            self._check("drain brokers")
            return DrainBrokerResponse(0, await self._broker.operations.drain(request.broker, request.draining))

        action = "drain broker" if request.draining else "undrain broker"
        working = self._recorded(action, str(request.broker), change, lambda answer: {})
        return self._answered(working, DrainBrokerResponse)

    def describe(self, request: DescribeReplicas) -> Deferred[DescribeReplicasResponse]:
        """Describe the logs of a topic here; without a topic only the brokers that are drained."""
        is_new = isinstance(request, DescribeReplicasV1)
        response = DescribeReplicasResponseV1 if is_new else DescribeReplicasResponse
        return self._answered(self._describe(request, response), response)

    async def _describe(
        self, request: DescribeReplicas, response: type[DescribeReplicasResponse]
    ) -> DescribeReplicasResponse:
        operations = self._broker.operations
        if not request.topic:
            self._rights.check_cluster(Operation.DESCRIBE)
            return response(0, draining=await operations.draining())
        self._rights.check_topic(Operation.DESCRIBE, request.topic)
        found, draining = await operations.describe(request.topic), await operations.draining()
        return response(0, operations.entry(request.topic).uuid, draining, tuple(found))

    # Internals

    def _check(self, what: str) -> None:
        self._rights.check_cluster(Operation.ALTER)
        if not self._broker.settings.administration_requests:
            raise AdministrationDisabled(f"clients cannot {what} on this broker: administration.requests = false")

    async def _recorded(
        self, action: str, name: str, change: Callable[[], Awaitable[R]], details: Callable[[R], dict[str, Any]]
    ) -> R:
        """Make a change, and record it or the reason why it was not made."""
        log, requester = self._broker.administration_log, self._rights.requester
        try:
            answer = await change()
        except (LogdError, CoordinationError) as error:
            log.record(requester, action, name, error=error)
            raise
        log.record(requester, action, name, **details(answer))
        return answer

    def _answered(self, work: Coroutine[Any, Any, R], response: Callable[..., R]) -> Deferred[R]:
        """Return the answer of ``work``, or that of its failure."""

        async def answer() -> R:
            try:
                return await work
            except WireError as error:
                return response(error.code, text=str(error))
            except CoordinationError as error:
                return response(CoordinationUnavailable.code, text=f"the coordination tree does not answer: {error}")
            except Exception as error:
                _log.failure("a request of an operator failed")
                return response(UnknownError.code, text=str(error))

        return Deferred.fromCoroutine(answer())
