"""Answers ReplicaRead: entries of a replica here, for another broker whose own bytes are damaged."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred

from logd.broker.replication.replica_manager import ReplicaManager
from logd.deferreds.threads import on_thread
from logd.errors import (
    CorruptMessage,
    InvalidMessage,
    LogdError,
    NotLeader,
    OffsetOutOfRange,
    PartitionOffline,
    StaleLeaderEpoch,
    UnknownError,
    WireError,
    WrongPartition,
)
from logd.log.damage.verified_read import read_verified
from logd.log.partition import PartitionLog
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1


@define(eq=False)
class ReplicaReads:
    """The ReplicaRead requests of all connections."""

    _manager: ReplicaManager
    #: Called with a log and the position of an entry in it that was found to be damaged.
    _suspect: Callable[[PartitionLog, int], None]

    def answer(self, request: ReplicaRead | ReplicaReadV1) -> Deferred[ReplicaReadResponse]:
        """Return the entries, or the reason why they are not given."""
        return Deferred.fromCoroutine(self._answer(request))

    async def _answer(self, request: ReplicaRead | ReplicaReadV1) -> ReplicaReadResponse:
        try:
            return ReplicaReadResponse(0, request.position, await self._read(request))
        except WireError as error:
            return ReplicaReadResponse(error.code, text=str(error))
        except (LogdError, OSError) as error:
            return ReplicaReadResponse(UnknownError.code, text=str(error))

    async def _read(self, request: ReplicaRead | ReplicaReadV1) -> bytes:
        log = self._checked(request)
        # Bytes that are not visible yet may be truncated, and another leader may put other messages there.
        snapshot = log.snapshot(log.visible_end)
        try:
            data: bytes = await on_thread(
                self._manager.threads, lambda: read_verified(snapshot, request.position, request.length)
            )
        except CorruptMessage as error:
            self._suspect(log, request.position)
            raise InvalidMessage(f"it is damaged here too: {error}") from error
        if self._checked(request) is not log:
            raise UnknownError(f"{log.folder} was replaced meanwhile")
        return data

    def _checked(self, request: ReplicaRead | ReplicaReadV1) -> PartitionLog:
        """Return the log. Raises WireError unless it is that of an in-sync replica of the topic and epoch named."""
        manager, name = self._manager, f"{request.topic}-{request.partition}"
        log = manager.store.log(request.topic, request.partition)
        if log is None:
            raise WrongPartition(f"{name} is not on broker {manager.store.broker_id}")
        if log.offline is not None:
            raise PartitionOffline(f"{name} is offline: {log.offline}")
        known = manager.states.get(request.topic, request.partition)
        if known is None or known.state.leader_epoch != request.leader_epoch:
            raise StaleLeaderEpoch(f"{name} is not in leader epoch {request.leader_epoch} for this broker")
        if isinstance(request, ReplicaReadV1) and known.uuid != request.uuid:
            raise StaleLeaderEpoch(f"{name} is one of another topic of that name for this broker")
        if not known.state.is_member(manager.store.broker_id, manager.store.instance):
            raise NotLeader(f"broker {manager.store.broker_id} is not in sync for {name}")
        if not log.start <= request.position < log.visible_end:
            raise OffsetOutOfRange(f"{request.position} is not between {log.start} and {log.visible_end}")
        return log
