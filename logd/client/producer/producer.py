"""The producer: takes message sets and delivers them in order, in batches, within a bound of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.python.failure import Failure

from logd.audit.event import AUDIT_TOPIC
from logd.client.audit.producer_audit import producer_audit
from logd.client.audit.time_of_day import time_of_day
from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import Connect
from logd.client.interfaces import IPartitioner
from logd.client.producer.acks_zero_path import FastPath, OpenWays
from logd.client.producer.batches.batch import RECORD_MEMORY
from logd.client.producer.buffer_pool import BufferPool, BufferWaiter
from logd.client.producer.formats import Record, format_of
from logd.client.producer.partitioner import ChoosePartition, as_partitioner
from logd.client.producer.pending_send import HeldMessages, PendingSend, Sent, WaitingSend
from logd.client.producer.router import Router
from logd.client.producer.single_messages import SEND_MEMORY, SingleMessages, only_payload
from logd.client.producer.unfinished import OnError, Unfinished
from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings, ProducerSettings
from logd.clientcore.addresses import Address
from logd.deferreds.timeouts import with_timeout
from logd.errors import ClientClosed, ConfigurationError, LogdError, ProducerBufferFull, PublishFailed
from logd.interfaces import Timer
from logd.protocol.message import Message, keyed_message
from logd.protocol.message_set import MessageSet
from logd.topic import check_topic_name

#: The argument of ``send``: a message or bytes (its payload), or several of them.
Messages = MessageSet | Message | bytes | Iterable[Message | bytes]

#: Seconds between checks of deadlines and of the age of metadata, while a send is unfinished.
TICK_SECONDS = 1.0


class Producer:
    """A publisher to topics of one cluster. Use it on the reactor's thread; ``logd.client.blocking`` is for others.

    Settings are those of ProducerSettings and LinkSettings, by name, for instance
    ``Producer("host:6667", acks=1, linger=0.01)``.
    """

    def __init__(
        self,
        brokers: str | Sequence[str | tuple[str, int]] = "127.0.0.1:6667",
        *,
        partitioner: IPartitioner | ChoosePartition | None = None,
        on_error: OnError | None = None,
        reactor: Any = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        time_ms: Callable[[], int] = time_of_day,
        **settings: Any,
    ) -> None:
        """Read ``brokers``, the addresses to start from (see addresses.parse_brokers). Connects at the first send.

        ``partitioner``: an IPartitioner or a function ``(topic, key, partitions) -> partition``; by default
        KeyedPartitioner. ``on_error`` is called with topic, number and error for published messages that will not be
        delivered; without it each such failure is logged. ``connect``, ``random`` and ``time_ms`` are seams for tests.

        Raises ConfigurationError for a setting that is unknown or not allowed.
        """
        if reactor is None:
            from twisted.internet import reactor  # its import installs a reactor, so not before one is needed
        mine, links = read_settings(settings, ProducerSettings, LinkSettings)
        self.settings: ProducerSettings = mine
        more: dict[str, Any] = {} if random is None else {"random": random}
        self._clock = reactor
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)
        self._pool = BufferPool(mine.buffer_bytes, mine.max_waiting)
        chooser = as_partitioner(partitioner)
        self._unfinished = Unfinished(on_error)
        self._router = Router(self._cluster, mine, chooser, self._pool, format_of(mine), self._unfinished)
        # Without a way past the audit, which stamps each message.
        self._current = {} if mine.audit else self._router.open_batches.current
        #: Messages with more than a payload may join open batches as well, unless the audit stamps each one.
        self._may_join = not mine.audit
        self._fast_path: FastPath | None = None
        self._open_ways: OpenWays = {}
        if FastPath.fits(mine):
            self._fast_path = FastPath(self._cluster, mine, chooser, self._router.queues)
            self._open_ways = self._fast_path.open
            self._router.entered = self._open_ways.clear
        self._singles = SingleMessages(reactor, mine, self._pool, self._router, self._fast_path, self._unfinished)
        self._unfinished.audit = producer_audit(mine, reactor, self._send_events, self._cluster, self._seal, time_ms)
        self._checked: set[str] = set()
        self._tick: Timer | None = None
        self._closed = False
        self._ended = False

    @property
    def reactor(self) -> Any:
        """Return the reactor on whose thread the producer runs."""
        return self._clock

    @property
    def on_error(self) -> OnError | None:
        """The function that is told of published messages that will not be delivered; may be set at any time."""
        return self._unfinished.on_error

    @on_error.setter
    def on_error(self, function: OnError | None) -> None:
        self._unfinished.on_error = function

    @property
    def has_room(self) -> bool:
        """Return whether there is room for another message: ``buffer_bytes``, and fewer sends than some thousands.

        Then ``ready`` fires at once. A send without room is taken all the same, within ``max_waiting``.
        """
        return not self._closed and self._singles.has_room

    @property
    def buffer_has_room(self) -> bool:
        """Return whether a send would not have to wait, for those who drop messages where they would wait."""
        return not self._closed and self._singles.buffer_has_room

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of messages that are held, waiting or in flight."""
        return self._pool.used

    def send(
        self, topic: str, messages: Messages, *, partition: int | None = None, key: bytes | None = None
    ) -> Deferred[Sent]:
        """Publish messages in order. Fires with Sent: with acks 1 or -1 once the broker has them, with acks 0 once they
        are written.

        ``partition`` names the partition. Without it, the partitioner decides: by ``key`` for the whole set, or by
        the key of each message. For messages given as bytes ``key`` is also their key. Sets for one destination stay in
        order, through retries too; delivery is at least once. An empty set fires at once.

        While ``buffer_bytes`` are held, the set waits behind earlier ones. Cancelling before the messages have left
        takes them back; later it only stops the waiting. Fails with:

        - ProducerBufferFull: ``max_waiting`` sends wait already;
        - MessageTooLarge, InvalidMessage: the client or the broker refused the set, and would refuse it again;
        - WrongPartition: there is no such partition; InvalidTopic, TopicCreationDisabled: the topic cannot be created;
        - DeliveryFailed: the set could not be delivered within ``delivery_timeout``, and may be stored all the same;
          its cause is the last error;
        - ClientClosed: the producer was closed first;
        - any error that the partitioner raises.

        Raises TypeError for a value that is no message.
        """
        if key is None and type(messages) is not bytes:
            messages = only_payload(messages)
        if type(messages) is bytes:  # the most common form first: isinstance with "|" takes five times as long
            if key is None:
                name = topic if partition is None else (topic, partition)
                current = self._current.get(name)
                pool = self._pool
                if current is not None and pool.used < pool.room:
                    batch, queue, overhead, limit, most, _, _ = current
                    size = len(messages) + overhead
                    total = batch.bytes + size
                    if total <= limit:
                        deferred: Deferred[Sent] = Deferred(queue.canceller)
                        records = batch.records
                        number = len(records)
                        batch.singles[number] = deferred
                        self._unfinished.sends += 1
                        records.append(messages)
                        batch.bytes = total
                        pool.used += size + SEND_MEMORY
                        if number + 1 >= most:
                            queue.accumulator.seal()
                        return deferred
                elif self._open_ways:
                    way = self._open_ways.get(name)
                    if way is not None and way.take(messages):
                        return succeed(way.sent)
            if key is None:
                return self._send_one(topic, messages, partition, None)
            message = keyed_message(messages, key) if type(key) is bytes else Message(messages, key=key)
            return self._send_one(topic, message, partition, key)
        codec = "none"
        if isinstance(messages, MessageSet):
            codec = messages.compression
            listed: Sequence[Message] = messages.messages
        elif isinstance(messages, Message):
            return self._send_one(topic, messages, partition, messages.key if key is None else key)
        elif isinstance(messages, bytes | bytearray | memoryview):  # a class derived from bytes, or a buffer
            return self._send_one(topic, Message(bytes(messages), key=key), partition, key)
        else:
            listed = tuple([each if isinstance(each, Message) else Message(each, key=key) for each in messages])
        if self._unfinished.audit is not None:
            listed = self._unfinished.audit.stamp_all(listed)
        if len(listed) == 1 and codec == "none":
            return self._send_one(topic, listed[0], partition, listed[0].key if key is None else key)
        refused = self._begin(topic)
        if refused is not None:
            return fail(refused)
        return self._send_all(topic, listed, partition, key, codec)

    def send_set(self, topic: str, partition: int, message_set: bytes) -> Deferred[Sent]:
        """Publish a message set that is encoded already, with the bytes that it has. Needs acks 1 or -1.

        For programs that move sets from one log to another: nothing is decoded, checked or compressed. ``Sent`` has the
        place of exactly these bytes. Sets of a partition stay in order, and a set is sent until the broker takes it:
        while it is refused, for whatever reason (see ``trouble``), none passes it. It has to fit in one request.

        Memory, cancelling and errors are as with ``send``, but for refusals. Raises ConfigurationError with acks 0.
        """
        if self.settings.acks == 0:
            raise ConfigurationError("send_set is not for acks = 0, with which a set may be lost unnoticed")
        refused = self._begin(topic)
        if refused is not None:
            return fail(refused)
        send = PendingSend(topic, (), partition, None, "none", math.inf, message_set)
        deferred: Deferred[Sent] = send.deferred  # type: ignore[assignment]  # as in _send_all
        if not message_set:
            send.part_sent(Sent(topic, partition))
            return deferred
        self._submit(send)
        return deferred

    def trouble(self, topic: str, partition: int) -> Exception | None:
        """Return the last error of what is being sent to a partition; None once something was stored there."""
        return self._router.trouble(topic, partition)

    def begin_at(self, addresses: Sequence[Address]) -> None:
        """Ask the brokers at these addresses first from now on, when there is no connection to any broker."""
        self._cluster.begin_at(addresses)

    def publish(
        self,
        topic: str,
        payload: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> bool:
        """Publish one message without a Deferred for it. The arguments are those of Message, and ``partition``.

        The message is taken in either case. The answer is that of ``has_room``: True means that there is room for
        another one, False that the buffer is full now (``buffer_bytes``), or some thousands of sends are under way.
        Then ``await producer.ready()`` before the next. Order and repeats are those of ``send``. Messages that cannot
        be delivered are reported to ``on_error``, and by the next ``flush``.

        A message that is not taken raises: ProducerBufferFull once twice ``buffer_bytes`` are held, ClientClosed,
        InvalidTopic, MessageTooLarge (above ``message_bytes``), and TypeError or ValueError as Message does.
        """
        if type(payload) is not bytes or key is not None or timestamp is not None or headers:
            if type(payload) is bytes and type(key) is bytes and timestamp is None and not headers:
                message = keyed_message(payload, key)
            else:
                message = Message(payload, key=key, timestamp=timestamp, headers=headers)
            if self._may_join and self._singles.publish_into_open(topic, message, partition):
                return self._unfinished.few_sends
            self._begin_publish(topic)
            message = message if self._unfinished.audit is None else self._unfinished.audit.stamp(message)
            return self._singles.publish(topic, message, partition, key)
        name = topic if partition is None else (topic, partition)
        current = self._current.get(name)
        if current is not None:
            batch, queue, overhead, limit, most, pool, _ = current
            size = len(payload) + overhead
            total = batch.bytes + size
            used = pool.used + size + RECORD_MEMORY
            if total <= limit and used < pool.room:
                records = batch.records
                records.append(payload)
                batch.bytes = total
                pool.used = used
                if len(records) >= most:
                    queue.accumulator.seal()
                unfinished = self._unfinished
                return unfinished.sends < unfinished.most_sends  # as few_sends, without a call
        elif self._open_ways and self._pool.free:
            way = self._open_ways.get(name)
            if way is not None and way.take(payload):
                return self._unfinished.few_sends
        self._begin_publish(topic)
        record = payload if self._unfinished.audit is None else self._unfinished.audit.stamp(payload)
        return self._singles.publish(topic, record, partition, None)

    def ready(self) -> Deferred[None]:
        """Return a Deferred that fires once there is room, behind all sends that wait. Cancellable.

        Fails with ClientClosed.
        """
        if self._closed:
            return fail(ClientClosed("the producer is closed"))
        full = None if self._fast_path is None else self._fast_path.full()
        if full is None:
            full = self._unfinished.fewer_sends()
        if full is None:
            return self._pool.ready()
        self._router.flush()  # what lingers takes the room that the caller waits for
        return full.addBoth(self._ready_after)

    def _ready_after(self, result: Failure | None) -> Deferred[None] | Failure:
        """Wait for room in the buffer, unless the caller waits no longer; a lost connection is no matter."""
        if isinstance(result, Failure) and result.check(CancelledError):
            return result
        return self._pool.ready()

    def flush(self) -> Deferred[None]:
        """Send the batches that linger; fires once every earlier message has been delivered or has failed. Cancellable.

        The Deferred of each send says how that send ended. Fails with PublishFailed if messages given to ``publish``
        were not delivered, since the last flush that failed so.
        """
        if self._fast_path is not None:
            self._fast_path.write()
        waiting = self._unfinished.flushed()
        if self.settings.linger > 0:
            for item in self._unfinished.items:  # what waits for room or metadata is in no queue yet
                if isinstance(item, PendingSend | HeldMessages):
                    item.hurry = True
            self._router.flush()
        return waiting

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """Flush, for at most ``timeout`` seconds (``delivery_timeout`` by default), then disconnect; fires when done.

        Sends that are not delivered by then fail with ClientClosed, and so do later ones. Never fails.
        """
        return Deferred.fromCoroutine(self._close(self.settings.delivery_timeout if timeout is None else timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush and disconnect, as ``close`` does; a cancelled block does not wait."""
        await self.close(0.0 if isinstance(error, CancelledError) else None)

    async def _close(self, timeout: float) -> None:
        self._closed = True
        self._current = {}  # its own one the router fills again, as held messages leave
        self._may_join = False
        self._open_ways.clear()
        deadline = self._clock.seconds() + timeout
        with suppress(CancelledError, defer.TimeoutError, PublishFailed):  # told by on_error, or in the log
            await with_timeout(self._clock, timeout, self.flush())
        if self._unfinished.audit is not None:
            await self._unfinished.audit.finish(deadline - self._clock.seconds())
        self._ended = True
        self._router.close()
        self._pool.open()
        for item in list(self._unfinished.items):
            item.fail(ClientClosed("the producer was closed before this was delivered"))
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        await self._cluster.close()

    def not_published(self, topic: str, count: int, error: Exception) -> None:
        """Report messages that another thread could not publish, like those that cannot be delivered."""
        self._unfinished.failed(topic, count, error)

    def admitted(self, send: PendingSend) -> None:
        """Submit a send that has waited for room."""
        if not self._ended:
            self._router.submit(send)

    def leave(self, place: BufferWaiter) -> None:
        """Give up the place of a cancelled send that waited for room."""
        self._pool.leave(place)

    def _begin(self, topic: str) -> LogdError | None:
        """Return an error if nothing can be sent to a topic; else see to it that deadlines are checked."""
        if self._closed:
            return ClientClosed("the producer is closed")
        if topic not in self._checked:
            try:
                check_topic_name(topic)
            except LogdError as error:
                return error
            self._checked.add(topic)
        if self._tick is None:
            self._tick = self._clock.callLater(TICK_SECONDS, self._look)
        return None

    def _begin_publish(self, topic: str) -> None:
        refused = self._begin(topic)
        if refused is not None:
            raise refused

    def _send_one(self, topic: str, record: Record, partition: int | None, key: bytes | None) -> Deferred[Sent]:
        """Send one message; ``key`` decides its partition if none is given."""
        if self._may_join and isinstance(record, Message):
            joined = self._singles.send_into_open(topic, record, partition, key)
            if joined is not None:
                return joined
        refused = self._begin(topic)
        if refused is not None:
            return fail(refused)
        record = record if self._unfinished.audit is None else self._unfinished.audit.stamp(record)
        sending = self._singles.send(topic, record, partition, key)
        if sending is not None:
            return sending
        message = record if isinstance(record, Message) else Message(record)
        return self._send_all(topic, (message,), partition, None if key == message.key else key, "none")

    def _send_all(
        self, topic: str, messages: Sequence[Message], partition: int | None, key: bytes | None, codec: str
    ) -> Deferred[Sent]:
        """Send a set, or one message that has to wait."""
        deadline = self._clock.seconds() + self.settings.delivery_timeout
        send = PendingSend(topic, messages, partition, key, codec, deadline)
        deferred: Deferred[Sent] = send.deferred  # type: ignore[assignment]  # it is there until it fires
        if not messages:
            send.part_sent(Sent(topic, -1 if partition is None else partition))
            return deferred
        self._submit(send)
        return deferred

    def _submit(self, send: PendingSend) -> None:
        """Route a send, once there is room."""
        send.unfinished = self._unfinished
        self._unfinished.begin(send)
        if self._pool.free:
            self._router.submit(send)
            return
        try:
            waiting = WaitingSend(self, send)
            waiting.place = self._pool.wait(waiting.admit)
            send.holders = (waiting,)
        except ProducerBufferFull as error:
            send.fail(error)

    def _send_events(self, messages: Sequence[Message]) -> Deferred[Sent]:
        """Send events of the audit, which are neither stamped nor counted."""
        self._begin(AUDIT_TOPIC)
        return self._send_all(AUDIT_TOPIC, messages, None, messages[0].key, "none")

    def _seal(self) -> None:
        """Complete all open batches: what comes next is in another window of the audit."""
        for queue in self._router.all_queues():
            queue.accumulator.seal()

    def _look(self) -> None:
        self._tick = None
        self._router.expire()
        if self._fast_path is not None:
            self._fast_path.moved()
        if self._unfinished.items:
            self._tick = self._clock.callLater(TICK_SECONDS, self._look)
