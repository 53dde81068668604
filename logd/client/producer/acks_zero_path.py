"""The fast path of acks=0 with one message a set: encoded frames go to the connection, many of them in one write.

Nothing is kept for a set that takes the fast path, so it is open only while nothing else waits: the topic is known,
its broker is connected and takes bytes, and the queue is empty. Any other set takes the ordinary path, behind those
that wait.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink
from logd.client.interfaces import IPartitioner
from logd.client.producer.formats import Record
from logd.client.producer.partition_queue import PartitionQueue
from logd.client.producer.pending_send import Sent
from logd.client.producer.router import BROKER_CHOOSES
from logd.client.settings import ProducerSettings
from logd.clientcore.addresses import name_of
from logd.errors import ClientClosed, WireError
from logd.interfaces import Clock
from logd.plurals import counted
from logd.protocol import loops
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request

#: Bytes of frames at which they are written at once, without waiting for the end of the reactor's turn.
WRITE_BYTES = 64 << 10


class _Outbox:
    """Frames for one broker that are not yet written."""

    _log = Logger()

    def __init__(self, clock: Clock, link: BrokerLink) -> None:
        self.link = link
        self._clock = clock
        self._frames: list[bytes] = []
        self._count = 0
        self._bytes = 0
        #: True while a connection is waited for.
        self._waiting = False

    def add(self, pieces: list[bytes], size: int) -> None:
        """Add one frame."""
        if not self._frames:
            self._clock.callLater(0, self.write)
        self._frames += pieces
        self._count += 1
        self._bytes += size
        if self._bytes >= WRITE_BYTES:
            self.write()

    def write(self) -> None:
        """Write all frames, on the next connection if there is none now."""
        if not self._frames or self._waiting:
            return
        connection = self.link.current
        if connection is None:
            self._waiting = True
            self.link.get().addCallbacks(self._connected, self._unreachable)
            return
        frames, self._frames = self._frames, []
        self._count = self._bytes = 0
        connection.send_frames(frames)

    def _connected(self, _: object) -> None:
        self._waiting = False
        self.write()

    def _unreachable(self, failure: Failure) -> None:
        """Try again when the link makes its next attempt, or give up once the producer is closed."""
        self._waiting = False
        if failure.check(ClientClosed):
            self._log.warn(
                "lost {messages} with acks=0 for the broker at {address}: the producer was closed "
                "while there was no connection",
                messages=counted(self._count, "message"), address=name_of(self.link.address),
            )  # fmt: skip
            self._frames = []
            self._count = self._bytes = 0
        else:
            self._clock.callLater(0, self.write)


class _Way:
    """The fast path to one partition."""

    __slots__ = ("outbox", "queue", "sent")

    def __init__(self, queue: PartitionQueue, outbox: _Outbox) -> None:
        self.queue = queue
        self.outbox = outbox
        self.sent = Sent(queue.topic, queue.partition)


class FastPath:
    """The fast paths of one producer."""

    @staticmethod
    def fits(settings: ProducerSettings) -> bool:
        """Return whether, with these settings, a set needs nothing but to be sent."""
        return (
            settings.acks == 0
            and settings.batch_messages == 1
            and settings.linger == 0
            and settings.compression == "none"
        )

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        partitioner: IPartitioner,
        queues: dict[str, dict[int, PartitionQueue]],
    ) -> None:
        self._cluster = cluster
        self._discover = cluster.settings.discover
        self._limit = min(settings.batch_bytes, settings.message_bytes)
        self._partitioner = partitioner
        self._queues = queues
        self._ways: dict[PartitionQueue, _Way] = {}
        self._outboxes: dict[BrokerLink, _Outbox] = {}
        self._last: _Outbox | None = None

    def send(self, topic: str, record: Record, partition: int | None, key: bytes | None) -> Sent | None:
        """Send one message, by ``key`` if no partition is given; return None if the fast path is not open for it."""
        queues = self._queues.get(topic)
        if queues is None:
            return None
        if partition is None:
            partition = self._choose(topic, key)
        queue = queues.get(partition)
        if queue is None or len(queue):
            return None
        way = self._ways.get(queue) or self._find(queue)
        if way is None:
            return None
        outbox = self._last = way.outbox
        connection = outbox.link.current
        if connection is None:
            self._ways.pop(queue, None)
            return None
        data = loops.encode_payloads((record,)) if isinstance(record, bytes) else loops.encode_set((record,))
        if len(data) > self._limit:
            return None
        if not connection.writable:
            outbox.write()  # sets of the fast path stay before the one that now takes the ordinary path
            return None
        outbox.add(encode_request(Produce(topic, partition, data)), len(data) + 32)
        return way.sent

    def full(self) -> Deferred[None] | None:
        """Return a Deferred that fires or fails once the broker used last takes bytes again; None if it does now."""
        if self._last is None:
            return None
        connection = self._last.link.current
        return None if connection is None or connection.writable else connection.when_writable()

    def write(self) -> None:
        """Write all frames that are not yet written."""
        for outbox in self._outboxes.values():
            outbox.write()

    def moved(self) -> None:
        """Forget the leaders, which may have changed."""
        self._ways.clear()

    def _choose(self, topic: str, key: bytes | None) -> int:
        view = self._cluster.known(topic) if self._discover else None
        if view is None:
            return BROKER_CHOOSES
        among = view.partitions if key is not None else view.available or view.partitions
        partition = self._partitioner.choose(topic, key, among)
        self._partitioner.sealed(topic, partition)
        return partition

    def _find(self, queue: PartitionQueue) -> _Way | None:
        try:
            link = self._cluster.leader(queue.topic, queue.partition)
        except WireError:
            return None
        outbox = self._outboxes.get(link)
        if outbox is None:
            outbox = self._outboxes[link] = _Outbox(self._cluster.clock, link)
        way = self._ways[queue] = _Way(queue, outbox)
        return way
