"""The route of each send: the topic's partitions, the partition of each message, the broker of each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from twisted.internet.defer import CancelledError

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink
from logd.client.interfaces import IPartitioner
from logd.client.producer.batches.batch import RECORD_MEMORY, SET_BYTES, ProducerBatch
from logd.client.producer.batches.pieces import encoded_pieces, pieces_of
from logd.client.producer.buffer_pool import BufferPool
from logd.client.producer.formats import Format, TopicFormats, size_of
from logd.client.producer.open_batches import OpenBatches
from logd.client.producer.partition_queue import PartitionQueue
from logd.client.producer.partitioner import KeyedPartitioner, RandomPartitioner, given_partition
from logd.client.producer.pending_send import HeldMessages, PendingSend, Published, in_slices
from logd.client.producer.sender import BrokerSender
from logd.client.producer.topic_searches import TopicSearches
from logd.client.producer.unfinished import Unfinished
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.clientcore.message_format import takes_only_legacy
from logd.clientcore.metadata import TopicView
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable, ClientClosed, DeliveryFailed, WireError, WrongPartition
from logd.protocol.message import Message


class Router:
    """The queues of one producer, by topic and partition, and the sends whose topic is not known yet."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        partitioner: IPartitioner,
        pool: BufferPool,
        form: Format,
        unfinished: Unfinished,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._partitioner = partitioner
        self._pool = pool
        self.forms = TopicFormats(cluster, settings, form)
        self._unfinished = unfinished
        kind = type(partitioner)
        self.open_batches = OpenBatches(
            settings, pool, stays=kind in (KeyedPartitioner, RandomPartitioner), by_key=kind is KeyedPartitioner
        )
        cluster.changed = lambda topic: self.open_batches.changed(topic, self.queues.get(topic, ()))
        #: Called before a message takes this path.
        self.entered: Callable[[], None] = lambda: None
        #: topic -> partition -> queue
        self.queues: dict[str, dict[int, PartitionQueue]] = {}
        self._senders: dict[BrokerLink, BrokerSender] = {}
        #: Sends whose topic is not known, in order; a search runs for each topic in it. Further ones wait behind them.
        self.unknown: dict[str, dict[PendingSend | HeldMessages, None]] = {}
        self._searches = TopicSearches(cluster.clock)
        self._background = Background("a producer")
        self.closed = False

    def submit(self, send: PendingSend | HeldMessages) -> None:
        """Route a send, which ends by itself, or published messages."""
        topic = send.topic
        unknown = self.unknown.get(topic)
        view = self._cluster.known(topic) if self._cluster.settings.discover else None
        if unknown is not None or (self._cluster.settings.discover and view is None):
            self._hold(send)
        else:
            self._dispatch(send, view)

    def batch_for(
        self, topic: str, key: bytes | None, partition: int | None, size: int
    ) -> tuple[ProducerBatch, PartitionQueue] | None:
        """Return the open batch, with its queue, that takes a message of ``size`` bytes, as the format counts them.

        None while the topic is not known. Raises WrongPartition, and what the partitioner raises.
        """
        view = self._cluster.known(topic) if self._cluster.settings.discover else None
        if topic in self.unknown or (view is None and self._cluster.settings.discover):
            return None
        return self._batch_for(topic, key, partition, size, view)

    def _batch_for(
        self, topic: str, key: bytes | None, partition: int | None, size: int, view: TopicView | None
    ) -> tuple[ProducerBatch, PartitionQueue]:
        self.entered()
        if partition is not None or view is None:
            chosen = given_partition(partition, view)
        else:
            among = view.partitions if key is not None else view.available or view.partitions
            chosen = self._partitioner.choose(topic, key, among)
        queues = self.queues.get(topic)
        queue = None if queues is None else queues.get(chosen)
        if queue is None:
            queue = self._queue(topic, chosen)
        batch = queue.accumulator.with_room(1, size)
        if topic not in self.unknown:  # else an application that is told of something would overtake what waits there
            self.open_batches.found(batch, queue, key, partition, view, takes_only_legacy(view))
        return batch, queue

    def hold_published(self, topic: str, message: Published) -> HeldMessages:
        """Keep a published message until its topic is known; return it with those before it."""
        sends = self.unknown.get(topic)
        last = next(reversed(sends), None) if sends else None
        deadline = self._cluster.clock.seconds() + self._settings.delivery_timeout
        late = self._settings.joining_seconds
        if not isinstance(last, HeldMessages) or last.is_full or deadline - last.deadline > late:
            last = HeldMessages(topic, self._unfinished, deadline)
            self._hold(last)
        last.messages.append(message)
        held = message.size + RECORD_MEMORY
        last.held += held
        self._pool.take(held)
        return last

    def flush(self) -> None:
        """Let all open batches leave without lingering, those to come of messages whose topic is not known included."""
        for sends in self.unknown.values():
            for send in sends:
                send.hurry = True
        for queues in self.queues.values():
            for queue in queues.values():
                queue.flush()

    def trouble(self, topic: str, partition: int) -> Exception | None:
        """Return the last error of a partition's batches, or of the search for the topic; see Producer."""
        queue = self.queues.get(topic, {}).get(partition)
        return self._searches.reason(topic) if queue is None else queue.cause

    def all_queues(self) -> list[PartitionQueue]:
        """Return all queues."""
        return [queue for queues in self.queues.values() for queue in queues.values()]

    def expire(self) -> None:
        """Give up sends past their deadlines, renew old metadata, warn of long searches."""
        now = self._cluster.clock.seconds()
        self._searches.tell()
        for queue in self.all_queues():
            queue.expire()
        for topic, sends in list(self.unknown.items()):  # those told of failures may send to further topics
            for send in [send for send in sends if send.deadline <= now]:
                cause = self._searches.reason(topic)
                failure = DeliveryFailed(
                    f"no metadata of topic {topic!r} within delivery_timeout = {self._settings.delivery_timeout:g} "
                    "seconds" + (f"; the last error: {cause}" if cause else "")
                )
                failure.__cause__ = cause
                self._fail_held(send, failure)
        if self._cluster.settings.discover:
            for topic in list(self.queues):  # as above
                if self._cluster.is_old(topic):
                    self._cluster.read(topic).addCallbacks(self._rerouted_all, lambda _: None)

    def close(self) -> None:
        """Fail the sends that are left."""
        self.closed = True
        self._background.stop()
        for queue in self.all_queues():
            queue.close()
        for sends in list(self.unknown.values()):
            for send in list(sends):
                self._fail_held(send, ClientClosed("the producer was closed before this was delivered"))

    def _dispatch(self, send: PendingSend | HeldMessages, view: TopicView | None) -> None:
        """Put a send into the queues of its destinations."""
        self.entered()
        settings = self._settings
        if send.deadline - self._cluster.clock.seconds() < settings.delivery_timeout - settings.linger:
            send.hurry = True  # it has waited as long as others linger, and its batch would end with its time
        if isinstance(send, HeldMessages):
            self._dispatch_published(send, view)
            return
        pool = self._pool
        held, send.held = send.held, 0
        messages, send.messages = send.messages, ()
        try:
            if send.message_set:
                self._put_set(send, given_partition(send.partition, view), held)
                return
            self.forms.check(send.topic, messages, send.codec)
            if send.partition is not None or view is None:
                partition = given_partition(send.partition, view)
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
            put = self._put_encoded if send.codec != "none" else self._put
            put(send, {partition: messages}, held)
        except Exception as error:  # a partitioner may raise anything; the error belongs to the caller of send
            send.fail(error)
            pool.give(held)

    def _put(self, send: PendingSend, parts: Mapping[int, Sequence[Message]], held: int) -> None:
        """Put messages into the queues of their partitions; ``held`` bytes of them are counted already.

        Raises MessageTooLarge, or InvalidMessage for the producer's compression; nothing is in a queue or counted then.
        """
        settings = self._settings
        divided = {
            partition: pieces_of(part, self.forms.of(send.topic), settings.batch_bytes, settings.message_bytes)
            for partition, part in parts.items()
        }
        total = count = 0
        for partition, pieces in divided.items():
            count += len(pieces)
            total += RECORD_MEMORY * len(parts[partition])
            for piece in pieces:
                total += piece.size + SET_BYTES
        queues = {partition: self._queue(send.topic, partition) for partition in divided}
        self._pool.take(total - held)
        if count != 1:
            send.expect(count)
        send.holders = tuple(queues.values())
        for partition, pieces in divided.items():
            queues[partition].add(pieces, send)

    def _put_encoded(self, send: PendingSend, parts: Mapping[int, Sequence[Message]], held: int) -> None:
        """Put sets with a compression of their own into the queues; see ``_put``."""
        form, limits = self.forms.of(send.topic), (self._settings.batch_bytes, self._settings.message_bytes)
        encoded = {partition: encoded_pieces(part, form, send.codec, *limits) for partition, part in parts.items()}
        total = sum(len(data) + RECORD_MEMORY * n + SET_BYTES for pieces in encoded.values() for data, n in pieces)
        queues = {partition: self._queue(send.topic, partition) for partition in encoded}
        self._pool.take(total - held)
        send.expect(sum(map(len, encoded.values())))
        send.holders = tuple(queues.values())
        for partition, pieces in encoded.items():
            queues[partition].add_encoded(pieces, send)

    def _put_set(self, send: PendingSend, partition: int, held: int) -> None:
        """Put a set of ``send_set`` into the queue of its partition; see ``_put``."""
        message_set, send.message_set = send.message_set, b""
        queue = self._queue(send.topic, partition)
        self._pool.take(len(message_set) + RECORD_MEMORY + SET_BYTES - held)
        send.holders = (queue,)
        queue.add_set(message_set, send)

    def _dispatch_published(self, held: HeldMessages, view: TopicView | None) -> None:
        """Put published messages into the queues of their partitions."""
        messages, held.messages = held.messages, []
        topic = held.topic
        batches: dict[ProducerBatch, None] = {}
        queues: dict[PartitionQueue, None] = {}
        failures: list[Exception] = []
        for message in messages:
            try:
                self.forms.check(topic, (message.record,))
                size = size_of(message.record, self.forms.of(topic))  # the format may have been another one before
                batch, queue = self._batch_for(topic, message.key, message.partition, size, view)
            except Exception as error:  # as in _dispatch
                failures.append(error)
                continue
            batch.records.append(message.record)
            batch.bytes += size
            self._pool.take(size + RECORD_MEMORY)
            batches[batch] = queues[queue] = None
            queue.accumulator.seal_full()
        for failure in failures:  # not before, or what on_error publishes would overtake the messages that follow
            self._unfinished.failed(topic, 1, failure)
        self._unfinished.replace(held, batches)
        self._pool.give(held.held)
        if held.hurry:
            for queue in queues:
                queue.flush()

    def _dispatch_by_key(
        self, send: PendingSend, messages: Sequence[Message], keys: set[bytes | None], held: int, view: TopicView
    ) -> None:
        """Send each message to the partition of its own key; messages for one partition stay in order."""
        choose = self._partitioner.choose
        available = view.available or view.partitions
        by_key = {key: choose(send.topic, key, available if key is None else view.partitions) for key in keys}
        parts: dict[int, list[Message]] = {}
        for message in messages:
            parts.setdefault(by_key[message.key], []).append(message)
        put = self._put_encoded if send.codec != "none" else self._put
        put(send, parts, held)

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queues = self.queues.setdefault(topic, {})
        queue = queues.get(partition)
        if queue is None:
            self.forms.check(topic, (), self._settings.compression)
            queue = queues[partition] = PartitionQueue(
                topic,
                partition,
                self._settings,
                self._cluster.clock,
                self._pool,
                self._partitioner,
                self._cluster.backoff(),
                self._reroute,
                self.forms,
                self._unfinished,
                self.open_batches.end,
            )
            self._unfinished.partition_added()
            self._find(queue)
        return queue

    def _find(self, queue: PartitionQueue) -> None:
        """Give a queue the sender of its leader, by the metadata last read."""
        self.forms.adapt(queue.topic)
        try:
            link = self._cluster.leader(queue.topic, queue.partition)
        except WireError as error:
            queue.unreachable(error)
            return
        sender = self._senders.get(link)
        if sender is None:
            sender = self._senders[link] = BrokerSender(
                self._cluster.clock, link, self._settings.acks, self._cluster.settings.request_timeout
            )
        queue.found(sender.wake)

    def _reroute(self, queue: PartitionQueue, error: Exception) -> None:
        """Read the metadata again for a queue that met an error, then give it its leader."""
        if self.closed:
            return
        if not self._cluster.settings.discover:
            self._find(queue)
            return
        reading = self._cluster.read(queue.topic, create=self._settings.create_topics)
        reading.addCallbacks(lambda _: self._find(queue), lambda failure: queue.unreachable(failure.value))

    def _rerouted_all(self, view: TopicView) -> None:
        self.forms.adapt(view.name)
        for queue in list(self.queues[view.name].values()):  # those told of failures may send to others
            if queue.idle and not queue.held_up:
                self._find(queue)

    def _hold(self, send: PendingSend | HeldMessages) -> None:
        """Keep a send until its topic is known."""
        if isinstance(send, PendingSend):
            messages = sum(len(message.payload or b"") + 64 for message in send.messages)
            send.held = SET_BYTES + messages + len(send.message_set)
            self._pool.take(send.held)
        send.holders = (self,)
        self.entered()
        if send.topic in self.unknown:
            self.unknown[send.topic][send] = None
        else:
            self.unknown[send.topic] = {send: None}
            self._background.start(self._search(send.topic))

    async def _search(self, topic: str) -> None:
        """Read a topic's metadata until it is known, cannot be had, or no send waits for it."""
        backoff = self._cluster.backoff()
        while not self.closed:
            try:
                view = await self._cluster.read(topic, create=self._settings.create_topics)
                if not view.available:
                    raise WrongPartition(f"no partition of topic {topic!r} has a leader now")
            except (BrokerUnavailable, WireError) as error:
                if is_final(error):
                    await in_slices(self._cluster.clock, self.unknown[topic], partial(self._fail_held, error=error))
                    if not self.unknown[topic]:  # else the application has sent again when it was told
                        break
                self._searches.failed(topic, error)
                await sleep(self._cluster.clock, backoff.next())
            else:
                sends = self.unknown[topic]
                while sends:  # a send submitted meanwhile joins the end: order holds
                    await in_slices(self._cluster.clock, sends, partial(self._release, view))
                    if sends:
                        await sleep(self._cluster.clock, 0.0)
                break
            if not self.unknown[topic]:
                break
        self.unknown.pop(topic, None)
        self._searches.ended(topic)

    def _release(self, view: TopicView, send: PendingSend | HeldMessages) -> None:
        self._dispatch(send, self._cluster.known(send.topic) or view)  # it may be another one than in the turn before

    def withdraw(self, send: PendingSend) -> None:
        """End a cancelled send whose topic is not known."""
        self._fail_held(send, CancelledError())

    def _fail_held(self, send: PendingSend | HeldMessages, error: Exception) -> None:
        """End a send that is not encoded yet."""
        self.unknown[send.topic].pop(send, None)
        held, send.held = send.held, 0
        if isinstance(send, PendingSend):
            send.messages, send.message_set = (), b""
        send.fail(error)
        self._pool.give(held)
