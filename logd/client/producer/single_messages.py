"""Messages that are sent or published one at a time, without an object for each beside the Deferred of a send."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred, fail, succeed

from logd.client.producer.acks_zero_path import FastPath
from logd.client.producer.batches.batch import RECORD_MEMORY, SET_BYTES, ProducerBatch
from logd.client.producer.buffer_pool import BufferPool, BufferWaiter
from logd.client.producer.formats import ENTRY_HEAD_BYTES, Record, too_large
from logd.client.producer.pending_send import HeldMessages, Published, Sent
from logd.client.producer.router import Router
from logd.client.producer.unfinished import Unfinished
from logd.client.settings import ProducerSettings
from logd.errors import InvalidMessage, ProducerBufferFull
from logd.interfaces import Clock
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.message_size import KEY_OR_TIME_BYTES, PLAIN_BYTES, entry_bytes

T = TypeVar("T")

#: ``publish`` takes messages until this many times ``buffer_bytes`` are held.
MOST_BUFFERS = 2
#: Memory held for a send of one message, beside its bytes.
SEND_MEMORY = SET_BYTES + RECORD_MEMORY


class SingleMessages:
    """Takes the messages of one producer that come one at a time and cannot simply join their topic's current batch."""

    def __init__(
        self,
        clock: Clock,
        settings: ProducerSettings,
        pool: BufferPool,
        router: Router,
        fast_path: FastPath | None,
        unfinished: Unfinished,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._pool = pool
        self._router = router
        self._fast_path = fast_path
        self._unfinished = unfinished
        self._behind: _Behind | None = None

    @property
    def has_room(self) -> bool:
        """Return whether there is room for a message: then Producer.ready fires at once, and only then."""
        return self._unfinished.few_sends and self.buffer_has_room

    @property
    def buffer_has_room(self) -> bool:
        """Return whether a message would not wait in the producer, however many sends are under way."""
        return self._pool.free and (self._fast_path is None or self._fast_path.writable)

    def send(self, topic: str, record: Record, partition: int | None, key: bytes | None) -> Deferred[Sent] | None:
        """Send a message, whose partition ``key`` decides if none is given; return None if it has to wait."""
        if not isinstance(record, bytes):
            try:
                self._router.forms.check(topic, (record,))
            except InvalidMessage as error:
                return fail(error)
        if self._fast_path is not None and topic not in self._router.unknown:
            sent = self._fast_path.send(topic, record, partition, key)
            if sent is not None:
                return succeed(sent)
        pool = self._pool
        if not pool.free:
            return None
        try:
            size = self._size(topic, record)
            found = self._router.batch_for(topic, key, partition, size)
        except Exception as error:  # a partitioner may raise anything; the error belongs to the caller of send
            return fail(error)
        if found is None:
            return None
        batch, queue = found
        deferred: Deferred[Sent] = Deferred(queue.canceller)
        batch.singles[len(batch.records)] = deferred
        self._unfinished.sends += 1
        batch.records.append(record)
        batch.bytes += size
        pool.take(size + SEND_MEMORY)
        queue.accumulator.seal_full()
        return deferred

    def publish(self, topic: str, record: Record, partition: int | None, key: bytes | None) -> bool:
        """Publish a message; see Producer.publish. Raises ProducerBufferFull and MessageTooLarge."""
        if not isinstance(record, bytes):
            try:
                self._router.forms.check(topic, (record,))
            except InvalidMessage as error:
                self._unfinished.failed(topic, 1, error)
                return self.has_room
        size = self._size(topic, record)
        fast_path = self._fast_path if topic not in self._router.unknown else None
        if fast_path is not None and fast_path.send(topic, record, partition, key) is not None:
            return self.has_room
        pool = self._pool
        if pool.used + pool.behind >= MOST_BUFFERS * pool.limit:
            raise ProducerBufferFull(
                f"the message was not published: the producer holds {pool.used + pool.behind} bytes, {MOST_BUFFERS} "
                f"times buffer_bytes = {pool.limit}; wait for ready() once publish has returned False"
            )
        if pool.sends_wait:
            self._put_behind(topic, Published(record, size, partition))
            return False
        had_room = pool.free
        try:
            found = self._router.batch_for(topic, key, partition, size)
        except Exception as error:  # as in send
            self._unfinished.failed(topic, 1, error)
            return self.has_room
        held = None
        if found is None:
            held = self._router.hold_published(topic, Published(record, size, partition))
        else:
            batch, queue = found
            batch.records.append(record)
            batch.bytes += size
            pool.take(size + RECORD_MEMORY)
            queue.accumulator.seal_full()
        if self.buffer_has_room:
            return self._unfinished.few_sends
        # Lingering batches would hold the bytes for which the next message waits.
        if had_room:
            self._router.flush()
        elif found is not None:
            found[1].flush()
        elif held is not None:
            held.hurry = True
        return False

    def send_into_open(
        self, topic: str, message: Message, partition: int | None, key: bytes | None
    ) -> Deferred[Sent] | None:
        """Send a message into the open batch for it, or return None: there is none, or no room."""
        try:
            current = self._router.open_batches.find(topic, key, partition)
            if current is None:
                return None
            batch, queue, overhead, limit, most, pool, _ = current
            size = _size_in(batch, message, overhead)
        except Exception:  # the long way fails the send with it
            return None
        if batch.bytes + size > limit or pool.used >= pool.room:
            return None
        deferred: Deferred[Sent] = Deferred(queue.canceller)
        records = batch.records
        batch.singles[len(records)] = deferred
        self._unfinished.sends += 1
        records.append(message)
        batch.bytes += size
        pool.used += size + SEND_MEMORY
        if len(records) >= most:
            queue.accumulator.seal()
        return deferred

    def publish_into_open(self, topic: str, message: Message, partition: int | None) -> bool:
        """Publish a message into the open batch for it; return False if there is none, or the buffer has no room for
        this and more.
        """
        current = self._router.open_batches.find(topic, message.key, partition)
        if current is None:
            return False
        batch, queue, overhead, limit, most, pool, _ = current
        size = _size_in(batch, message, overhead)
        used = pool.used + size + RECORD_MEMORY
        if batch.bytes + size > limit or used >= pool.room:
            return False
        records = batch.records
        records.append(message)
        batch.bytes += size
        pool.used = used
        if len(records) >= most:
            queue.accumulator.seal()
        return True

    def _size(self, topic: str, record: Record) -> int:
        """Return the size of a message as the format counts it. Raises MessageTooLarge."""
        form = self._router.forms.of(topic)
        if isinstance(record, bytes):
            size = len(record) + form.payload_overhead
            entry = len(record) + PLAIN_BYTES
        else:
            size = form.size(record)
            entry = entry_bytes(record)
        if entry - ENTRY_HEAD_BYTES > self._settings.message_bytes:
            raise too_large(entry, self._settings.message_bytes)
        return size

    def _put_behind(self, topic: str, message: Published) -> None:
        """Keep a published message behind the sends that wait for room, so that it does not overtake them."""
        pool = self._pool
        held = message.size + RECORD_MEMORY
        last = self._behind
        deadline = self._clock.seconds() + self._settings.delivery_timeout
        if (
            last is None
            or last.messages.topic != topic
            or deadline - last.messages.deadline > self._settings.joining_seconds
            or not pool.line
            or pool.line[-1] is not last.place
        ):
            messages = HeldMessages(topic, self._unfinished, deadline)
            last = self._behind = _Behind(messages, pool, self._router)
            last.place = pool.wait_behind(last.admit)
        last.messages.messages.append(message)
        last.messages.held += held
        pool.behind += held


class _Behind:
    """Published messages in the buffer pool's queue, behind sends; they hold bytes of ``pool.behind``."""

    def __init__(self, messages: HeldMessages, pool: BufferPool, router: Router) -> None:
        self.messages = messages
        self._pool = pool
        self._router = router
        self.place: BufferWaiter | None = None

    def admit(self) -> None:
        messages = self.messages
        self._pool.behind -= messages.held
        if messages.messages and not self._router.closed:  # else the producer fails them
            self._pool.take(messages.held)
            self._router.submit(messages)


def _size_in(batch: ProducerBatch, message: Message, overhead: int) -> int:
    """Return the bytes of a message as the batch's format counts them; ``overhead`` are those of a payload alone."""
    payload, key, timestamp, headers, _, _, _, _ = message
    if headers or payload is None or (key is None and timestamp is None):
        return batch.form.size(message)
    return len(payload) + (0 if key is None else len(key)) + overhead + KEY_OR_TIME_BYTES  # the same, without calls


def only_payload(messages: T) -> T | bytes:
    """Return the payload in place of one message, or a set of one, that has nothing else; anything else as it is.

    Payloads are kept and encoded many at a time.
    """
    one: object = messages
    if type(one) is MessageSet and len(one.messages) == 1 and one.compression == "none":
        one = one.messages[0]
    if type(one) is Message:
        payload, key, timestamp, headers, _, _, _, _ = one
        if key is None and timestamp is None and not headers and type(payload) is bytes:
            return payload
    return messages
