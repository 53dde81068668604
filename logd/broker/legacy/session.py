"""The session of a client of Kafka 0.7 that found this broker in ZooKeeper: its numbers of partitions are our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from logd.broker.legacy.numbers import NO_PARTITION, own_partitions
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.session import BrokerSession
from logd.broker.security.authentication import LISTENER
from logd.net.server import Connection
from logd.protocol.conversation.interfaces import Received
from logd.protocol.requests.legacy_requests import Fetch, JoinedProduces, MultiFetch, MultiProduce, Offsets, Produce
from logd.topic import TopicEntry


class LegacySession(BrokerSession):
    """See ``logd.net.session.Session``. Takes the five requests of 0.7 alone."""

    protocol = "legacy"

    def __init__(self, broker: BrokerCore, connection: Connection, on_lost: Callable[[BrokerSession], None]) -> None:
        """See BrokerSession. The requests are those of the user in the setting legacy.principal."""
        super().__init__(broker, connection, on_lost)
        #: The partitions behind the numbers of each topic, by the entry from which they were read.
        self._numbers: dict[str, tuple[TopicEntry, list[int] | None]] = {}
        principal = broker.settings.legacy.legacy_principal
        if principal is not None:
            broker.authentication.prove(self.requester, principal, LISTENER)

    def take(self, received: Sequence[Received]) -> int:
        """See ``logd.net.session.Session``."""
        try:
            return super().take([(self._translated(request), token) for request, token in received])
        except _NativeRequest as error:
            self.connection.close(
                f"{type(error.request).__name__} is no request of Kafka 0.7, and this port (legacy.listen) numbers "
                "partitions as 0.7 did: clients of logd connect to the port of the setting listen"
            )
            return len(received)

    def _translated(self, request: Any) -> Any:
        if isinstance(request, Fetch | Offsets | Produce | JoinedProduces):
            return request._replace(partition=self._number(request.topic, request.partition))
        if isinstance(request, MultiFetch):
            return MultiFetch(tuple([self._translated(each) for each in request.fetches]))
        if isinstance(request, MultiProduce):
            return MultiProduce(tuple([self._translated(each) for each in request.produces]))
        raise _NativeRequest(request)

    def _number(self, topic: str, partition: int) -> int:
        """Return the partition behind a number of 0.7; of a topic that is to be created, any of this broker's."""
        entry = self._broker.topics.get(topic)
        if entry is None:
            self._numbers.pop(topic, None)
            return -1
        known = self._numbers.get(topic)
        if known is None or known[0] is not entry:  # a topic that has changed has another entry
            known = self._numbers[topic] = entry, own_partitions(entry, self._broker.store.broker_id)
        mine = known[1]
        if mine is None:
            return NO_PARTITION
        if partition < 0:
            return partition
        return mine[partition] if partition < len(mine) else NO_PARTITION


class _NativeRequest(Exception):
    """A request that is none of 0.7."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self.request = request
