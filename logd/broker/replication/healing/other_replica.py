"""Another in-sync replica, from which damaged bytes of a log here are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import CancelledError

from logd.broker.replication.replica_manager import ReplicaManager
from logd.coord.registries.partition_states import KnownState
from logd.deferreds.timeouts import with_timeout
from logd.errors import CorruptMessage, LogdError, NotLeader, UnknownError, UnsupportedVersion, error_for_code
from logd.log.partition import PartitionLog
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1
from logd.protocol.requests.responses import ErrorResponse

if TYPE_CHECKING:
    from logd.net.connection import BrokerConnection

#: Seconds for an answer: the other broker may have to read from a busy disk.
ANSWER_SECONDS = 30.0
#: Bytes that are asked for at a time.
READ_BYTES = 1 << 20


@define(eq=False)
class OtherReplica:
    """The replica of a partition on broker ``broker``, over a connection of its own. ``close`` ends it."""

    broker: int
    _manager: ReplicaManager
    _log: PartitionLog
    #: The partition's state when the replica was chosen.
    _chosen: KnownState
    _connection: BrokerConnection | None = field(default=None, init=False)

    async def read(self, position: int, length: int) -> bytes | memoryview:
        """Return whole entries from ``position`` on, about ``length`` bytes, not checked. Raises LogdError.

        The answer counts only if the replica is in sync when it comes, in the same topic and leader epoch.
        """
        self.check()
        log, chosen = self._log, self._chosen
        place = (log.topic, chosen.uuid, log.partition, chosen.state.leader_epoch)
        request = ReplicaReadV1(*place, position, max(0, min(length, READ_BYTES)))
        response = await self._ask(request)
        if response.error == UnsupportedVersion.code:  # a broker of an earlier release
            response = await self._ask(request.without_uuid())
        if response.error:
            raise error_for_code(response.error, response.text)
        assert isinstance(response, ReplicaReadResponse)
        if response.position != position or not response.message_set:
            raise CorruptMessage(f"broker {self.broker} answers with bytes of {response.position}", position)
        self.check()
        return response.message_set

    async def _ask(self, request: ReplicaRead | ReplicaReadV1) -> ReplicaReadResponse | ErrorResponse:
        """Return the answer to a request. Raises LogdError."""
        if self._connection is None:
            self._connection = await self._manager.links.open(self.broker)
        try:
            response: ReplicaReadResponse | ErrorResponse = await with_timeout(
                self._manager.clock, ANSWER_SECONDS, self._connection.request(request)
            )
        except Exception as error:
            self.close()
            if isinstance(error, LogdError | CancelledError):
                raise
            raise UnknownError(f"broker {self.broker} does not answer: {error!r}") from error
        return response

    def check(self) -> None:
        """Raise NotLeader unless the replica is in sync now, in the topic and leader epoch in which it was chosen."""
        where, chosen = (self._log.topic, self._log.partition), self._chosen
        known = self._manager.states.get(*where)
        if known is None or known.uuid != chosen.uuid:
            raise NotLeader("the topic was deleted")
        if known.state.leader_epoch != chosen.state.leader_epoch:
            raise NotLeader(f"the leader epoch is not {chosen.state.leader_epoch} any more")
        if self.broker not in self._manager.healing_sources(*where):
            raise NotLeader(f"broker {self.broker} is not in sync any more")

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
