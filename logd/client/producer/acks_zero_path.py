"""The fast path of acks=0 with one message a set: the requests of many messages go to the connection in one write.

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
from logd.client.producer.partitioner import BROKER_CHOOSES
from logd.client.producer.pending_send import Sent
from logd.client.settings import ProducerSettings
from logd.clientcore.addresses import name_of
from logd.errors import ClientClosed, WireError
from logd.interfaces import Clock
from logd.plurals import counted
from logd.protocol import loops
from logd.protocol.entry import LENGTH_BYTES
from logd.protocol.message_size import PLAIN_BYTES, entry_bytes
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request

#: Open ways by topic and partition, and by topic where the broker chooses the partition.
OpenWays = dict[str | tuple[str, int], "Way"]

#: Bytes of frames at which they are written at once, without waiting for the end of the reactor's turn.
WRITE_BYTES = 64 << 10


class _Outbox:
    """Messages for one broker that are not yet written."""

    _log = Logger()

    def __init__(self, clock: Clock, link: BrokerLink, ways: OpenWays) -> None:
        self.link = link
        self._clock = clock
        self._open = ways
        #: The ways that hold messages. Each destination's messages stay in order, not those of all.
        self._ways: list[Way] = []
        #: Bytes of the frames of all messages.
        self.bytes = 0
        #: True while a connection is waited for.
        self._waiting = False

    def add(self, way: Way, record: Record) -> None:
        """Add one message."""
        if not self.bytes:
            self._clock.callLater(0, self.write)
        if not (way.payloads or way.frames):
            self._ways.append(way)
        self.bytes += way.add(record)

    def write(self) -> None:
        """Write all messages, on the next connection if there is none now. Closes all ways."""
        self._open.clear()
        if not self.bytes or self._waiting:
            return
        connection = self.link.current
        if connection is None:
            self._waiting = True
            self.link.get().addCallbacks(self._connected, self._unreachable)
            return
        connection.send_frames(self._take()[0])

    def _take(self) -> tuple[list[bytes], int]:
        """Empty the outbox; return the frames, and the number of messages in them."""
        frames: list[bytes] = []
        count = 0
        for way in self._ways:
            count += way.take_into(frames)
        self._ways = []
        self.bytes = 0
        return frames, count

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
                messages=counted(self._take()[1], "message"), address=name_of(self.link.address),
            )  # fmt: skip
        else:
            self._clock.callLater(0, self.write)


class Way:
    """The fast path to one partition, and its messages that are not yet written.

    Payloads are kept as they are and become requests at the write, all in one loop.
    """

    __slots__ = ("_head", "_overhead", "_sets", "frames", "limit", "outbox", "payloads", "queue", "sent")

    def __init__(self, queue: PartitionQueue, outbox: _Outbox, limit: int) -> None:
        self.queue = queue
        self.outbox = outbox
        self.sent = Sent(queue.topic, queue.partition)
        #: The most bytes of a payload.
        self.limit = limit - PLAIN_BYTES
        self.payloads: list[bytes] = []
        #: Requests before ``payloads``, and the number of messages in them.
        self.frames: list[bytes] = []
        self._sets = 0
        empty = b"".join(encode_request(Produce(queue.topic, queue.partition, b"")))
        #: The bytes of each request between its size and that of its set.
        self._head = empty[LENGTH_BYTES:-LENGTH_BYTES]
        self._overhead = len(empty) + PLAIN_BYTES

    def take(self, payload: bytes) -> bool:
        """Take a payload if it fits into the outbox's next write. Only for a way that is open."""
        outbox = self.outbox
        total = outbox.bytes + len(payload) + self._overhead
        if total > WRITE_BYTES or len(payload) > self.limit:
            return False
        outbox.bytes = total
        self.payloads.append(payload)
        return True

    def add(self, record: Record) -> int:
        """Add a message; return the bytes of its request."""
        if isinstance(record, bytes):
            self.payloads.append(record)
            return len(record) + self._overhead
        self._encode()
        pieces = encode_request(Produce(self.queue.topic, self.queue.partition, loops.encode_set((record,))))
        self.frames += pieces
        self._sets += 1
        return sum(map(len, pieces))

    def take_into(self, frames: list[bytes]) -> int:
        """Move the requests to the end of ``frames``; return the number of messages."""
        self._encode()
        frames += self.frames
        count, self._sets, self.frames = self._sets, 0, []
        return count

    def _encode(self) -> None:
        if self.payloads:
            payloads, self.payloads = self.payloads, []
            self.frames.append(loops.encode_payload_frames(self._head, payloads))
            self._sets += len(payloads)


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
        self._ways: dict[PartitionQueue, Way] = {}
        #: The ways that take payloads without being looked for: until the next write, or a set on the ordinary path.
        self.open: OpenWays = {}
        self._outboxes: dict[BrokerLink, _Outbox] = {}
        self._last: _Outbox | None = None

    def send(self, topic: str, record: Record, partition: int | None, key: bytes | None) -> Sent | None:
        """Send one message, by ``key`` if no partition is given; return None if the fast path is not open for it."""
        queues = self._queues.get(topic)
        if queues is None:
            return None
        named = partition is not None
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
        if (len(record) if isinstance(record, bytes) else entry_bytes(record) - PLAIN_BYTES) > way.limit:
            return None
        if not connection.writable:
            outbox.write()  # messages of the fast path stay before the one that now takes the ordinary path
            return None
        outbox.add(way, record)
        if outbox.bytes >= WRITE_BYTES:
            outbox.write()
        elif named or not self._discover:
            self.open[(topic, partition) if named else topic] = way
        return way.sent

    @property
    def writable(self) -> bool:
        """Return whether the broker used last takes bytes, or has no connection."""
        connection = None if self._last is None else self._last.link.current
        return connection is None or connection.writable

    def full(self) -> Deferred[None] | None:
        """Return a Deferred that fires or fails once the broker used last takes bytes again; None if it does now."""
        connection = None if self._last is None else self._last.link.current
        return None if connection is None or connection.writable else connection.when_writable()

    def write(self) -> None:
        """Write all frames that are not yet written."""
        for outbox in self._outboxes.values():
            outbox.write()

    def moved(self) -> None:
        """Forget the leaders, which may have changed."""
        self._ways.clear()
        self.open.clear()

    def _choose(self, topic: str, key: bytes | None) -> int:
        view = self._cluster.known(topic) if self._discover else None
        if view is None:
            return BROKER_CHOOSES
        among = view.partitions if key is not None else view.available or view.partitions
        partition = self._partitioner.choose(topic, key, among)
        self._partitioner.sealed(topic, partition)
        return partition

    def _find(self, queue: PartitionQueue) -> Way | None:
        try:
            link = self._cluster.leader(queue.topic, queue.partition)
        except WireError:
            return None
        outbox = self._outboxes.get(link)
        if outbox is None:
            outbox = self._outboxes[link] = _Outbox(self._cluster.clock, link, self.open)
        way = self._ways[queue] = Way(queue, outbox, self._limit)
        return way
