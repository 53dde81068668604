"""The route of each send: the topic's partitions, the partition of each message, the broker of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import CancelledError

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink
from logd.client.interfaces import IPartitioner
from logd.client.producer.batch import SET_BYTES, encode_pieces
from logd.client.producer.buffer_pool import BufferPool
from logd.client.producer.partition_queue import PartitionQueue
from logd.client.producer.pending_send import PendingSend
from logd.client.producer.sender import BrokerSender
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.clientcore.metadata import TopicView
from logd.clientcore.partition_numbers import in_words, is_among
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable, ClientClosed, DeliveryFailed, WireError, WrongPartition
from logd.protocol.message import Message

#: The partition number that leaves the choice to the broker (docs/protocol.md, Produce).
BROKER_CHOOSES = -1


class Router:
    """The queues of one producer, by topic and partition, and the sends whose topic is not known yet."""

    def __init__(
        self, cluster: Cluster, settings: ProducerSettings, partitioner: IPartitioner, pool: BufferPool
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._settings = settings
        self._partitioner = partitioner
        self._pool = pool
        self._discover = cluster.settings.discover
        #: topic -> partition -> queue
        self.queues: dict[str, dict[int, PartitionQueue]] = {}
        self._senders: dict[BrokerLink, BrokerSender] = {}
        #: Sends whose topic is not known, in order; a search runs for each topic in it.
        self._unknown: dict[str, dict[PendingSend, None]] = {}
        #: The error of the latest attempt of such a search, by topic.
        self._reasons: dict[str, Exception] = {}
        self._background = Background("a producer")
        self._closed = False

    def submit(self, send: PendingSend) -> None:
        """Route a send, which ends by itself."""
        topic = send.topic
        unknown = self._unknown.get(topic)
        view = self._cluster.known(topic) if self._discover else None
        if unknown is not None or (self._discover and view is None):
            self._hold(send)
        else:
            self._dispatch(send, view)

    def all_queues(self) -> list[PartitionQueue]:
        """Return all queues."""
        return [queue for queues in self.queues.values() for queue in queues.values()]

    def expire(self) -> None:
        """Give up sends past their deadlines, and read again the metadata that is older than ``metadata_age``."""
        now = self._clock.seconds()
        for queue in self.all_queues():
            queue.expire()
        for topic, sends in self._unknown.items():
            for send in [send for send in sends if send.deadline <= now]:
                cause = self._reasons.get(topic)
                failure = DeliveryFailed(
                    f"no metadata of topic {topic!r} within delivery_timeout = {self._settings.delivery_timeout:g} "
                    "seconds" + (f"; the last error: {cause}" if cause else "")
                )
                failure.__cause__ = cause
                self._fail_held(send, failure)
        if self._discover:
            for topic in self.queues:
                view = self._cluster.known(topic)
                if view is not None and now - view.read_at > self._cluster.settings.metadata_age:
                    view_again = self._cluster.read(topic)
                    view_again.addCallbacks(self._rerouted_all, lambda _: None)

    def close(self) -> None:
        """Fail the sends that are left."""
        self._closed = True
        self._background.stop()
        for queue in self.all_queues():
            queue.close()
        for sends in list(self._unknown.values()):
            for send in list(sends):
                self._fail_held(send, ClientClosed("the producer was closed before this was delivered"))

    def _dispatch(self, send: PendingSend, view: TopicView | None) -> None:
        """Encode a send for its destinations and put it into their queues."""
        settings = self._settings
        pool = self._pool
        held, send.held = send.held, 0
        messages, send.messages = send.messages, ()
        codec = send.codec
        try:
            if send.partition is not None or view is None:
                partition = self._given(send.partition, view)
            elif send.key is not None:
                partition = self._partitioner.choose(send.topic, send.key, view.partitions)
            else:
                key = messages[0].key
                if len(messages) != 1:
                    keys = {message.key for message in messages}
                    if len(keys) > 1:
                        self._dispatch_by_key(send, messages, keys, held, view)
                        return
                among = view.partitions if key is not None else view.available or view.partitions
                partition = self._partitioner.choose(send.topic, key, among)
            pieces = encode_pieces(messages, codec, settings.batch_bytes, settings.message_bytes)
        except Exception as error:  # a partitioner may raise anything; the error belongs to the caller of send
            send.fail(error)
            pool.give(held)
            return
        total = 0
        for piece, _ in pieces:
            total += len(piece) + SET_BYTES
        pool.take(total - held)
        if len(pieces) != 1:
            send.expect(len(pieces))
        queues = self.queues.get(send.topic)
        queue = None if queues is None else queues.get(partition)
        if queue is None:
            queue = self._queue(send.topic, partition)
        send.holders = queue.alone
        queue.add(pieces, settings.compression if codec == "none" else "none", send)

    def _given(self, partition: int | None, view: TopicView | None) -> int:
        """Return the partition that a send names, or BROKER_CHOOSES. Raises WrongPartition."""
        if partition is None:
            return BROKER_CHOOSES
        if not 0 <= partition < 1 << 31:
            raise WrongPartition(f"partition {partition} is not allowed; allowed is a whole number from 0")
        if view is not None and not is_among(partition, view.partitions):
            raise WrongPartition(
                f"topic {view.name!r} has no partition {partition}; it has {in_words(view.partitions)}"
            )
        return partition

    def _dispatch_by_key(
        self, send: PendingSend, messages: Sequence[Message], keys: set[bytes | None], held: int, view: TopicView
    ) -> None:
        """Send each message to the partition of its own key; messages for one partition stay in order."""
        settings = self._settings
        choose = self._partitioner.choose
        available = view.available or view.partitions
        by_key = {key: choose(send.topic, key, available if key is None else view.partitions) for key in keys}
        parts: dict[int, list[Message]] = {}
        for message in messages:
            parts.setdefault(by_key[message.key], []).append(message)
        encoded = {
            partition: encode_pieces(part, send.codec, settings.batch_bytes, settings.message_bytes)
            for partition, part in parts.items()
        }
        self._pool.take(sum(len(piece) + SET_BYTES for pieces in encoded.values() for piece, _ in pieces) - held)
        send.expect(sum(map(len, encoded.values())))
        queues = {partition: self._queue(send.topic, partition) for partition in encoded}
        send.holders = tuple(queues.values())
        codec = settings.compression if send.codec == "none" else "none"
        for partition, pieces in encoded.items():
            queues[partition].add(pieces, codec, send)

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queues = self.queues.setdefault(topic, {})
        queue = queues.get(partition)
        if queue is None:
            queue = queues[partition] = PartitionQueue(
                topic,
                partition,
                self._settings,
                self._clock,
                self._pool,
                self._partitioner,
                self._cluster.backoff(),
                self._reroute,
            )
            self._find(queue)
        return queue

    def _find(self, queue: PartitionQueue) -> None:
        """Give a queue the sender of its leader, by the metadata last read."""
        try:
            link = self._cluster.leader(queue.topic, queue.partition)
        except WireError as error:
            queue.unreachable(error)
            return
        sender = self._senders.get(link)
        if sender is None:
            sender = self._senders[link] = BrokerSender(
                self._clock, link, self._settings.acks, self._cluster.settings.request_timeout
            )
        queue.found(sender.wake)

    def _reroute(self, queue: PartitionQueue, error: Exception) -> None:
        """Read the metadata again for a queue that met an error, then give it its leader."""
        if self._closed:
            return
        if not self._discover:
            self._find(queue)
            return
        reading = self._cluster.read(queue.topic, create=True)
        reading.addCallbacks(lambda _: self._find(queue), lambda failure: queue.unreachable(failure.value))

    def _rerouted_all(self, view: TopicView) -> None:
        for queue in self.queues[view.name].values():
            if queue.idle and not queue.held_up:
                self._find(queue)

    def _hold(self, send: PendingSend) -> None:
        """Keep a send until its topic is known."""
        send.held = SET_BYTES + sum(len(message.payload or b"") + 64 for message in send.messages)
        self._pool.take(send.held)
        send.holders = (self,)
        sends = self._unknown.get(send.topic)
        if sends is not None:
            sends[send] = None
        else:
            self._unknown[send.topic] = {send: None}
            self._background.start(self._search(send.topic))

    async def _search(self, topic: str) -> None:
        """Read a topic's metadata until it is known, cannot be had, or no send waits for it."""
        backoff = self._cluster.backoff()
        while not self._closed:
            try:
                view = await self._cluster.read(topic, create=True)
                if not view.available:
                    raise WrongPartition(f"no partition of topic {topic!r} has a leader now")
            except (BrokerUnavailable, WireError) as error:
                if is_final(error):
                    for send in list(self._unknown[topic]):
                        self._fail_held(send, error)
                    break
                self._reasons[topic] = error
                await sleep(self._clock, backoff.next())
            else:
                sends = self._unknown[topic]
                while sends:  # a send submitted meanwhile joins the end: order holds
                    send = next(iter(sends))
                    del sends[send]
                    self._dispatch(send, view)
                break
            if not self._unknown[topic]:
                break
        self._unknown.pop(topic, None)
        self._reasons.pop(topic, None)

    def withdraw(self, send: PendingSend) -> None:
        """End a cancelled send whose topic is not known."""
        self._fail_held(send, CancelledError())

    def _fail_held(self, send: PendingSend, error: Exception) -> None:
        """End a send that is not encoded yet."""
        self._unknown[send.topic].pop(send, None)
        held, send.held = send.held, 0
        send.messages = ()
        send.fail(error)
        self._pool.give(held)
