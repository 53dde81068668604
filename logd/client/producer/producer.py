"""The producer: takes message sets and delivers them in order, in batches, within a bound of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from attrs import define
from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, fail

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import Connect
from logd.client.interfaces import IPartitioner
from logd.client.producer.buffer_pool import BufferPool, BufferWaiter
from logd.client.producer.fast_path import FastPath
from logd.client.producer.partitioner import ChoosePartition, as_partitioner
from logd.client.producer.pending_send import PendingSend, Sent
from logd.client.producer.router import Router
from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings, ProducerSettings
from logd.deferreds.timeouts import with_timeout
from logd.errors import ClientClosed, LogdError, ProducerBufferFull
from logd.interfaces import Timer
from logd.protocol.message import Message
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
        reactor: Any = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """Read ``brokers``, the addresses to start from (see addresses.parse_brokers). Connects at the first send.

        ``partitioner``: an IPartitioner or a function ``(topic, key, partitions) -> partition``; by default
        KeyedPartitioner. ``connect`` and ``random`` are seams for tests. Raises ConfigurationError for a setting that
        is unknown or not allowed.
        """
        if reactor is None:
            from twisted.internet import reactor  # its import installs a reactor, so not before one is needed
        mine, links = read_settings(settings, ProducerSettings, LinkSettings)
        self.settings: ProducerSettings = mine
        more = {} if random is None else {"random": random}
        self._clock = reactor
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)
        self._pool = BufferPool(mine.buffer_bytes, mine.max_waiting)
        chooser = as_partitioner(partitioner)
        self._router = Router(self._cluster, mine, chooser, self._pool)
        self._fast_path: FastPath | None = None
        if FastPath.fits(mine):
            self._fast_path = FastPath(self._cluster, mine, chooser, self._router.queues)
        #: All sends that are not finished, in order.
        self._unfinished: dict[PendingSend, None] = {}
        self._checked: set[str] = set()
        self._tick: Timer | None = None
        self._closed = False
        self._ended = False
        self._sequence = 0
        self._flushes: list[_Flush] = []

    @property
    def reactor(self) -> Any:
        """Return the reactor on whose thread the producer runs."""
        return self._clock

    @property
    def has_room(self) -> bool:
        """Return whether a send would not have to wait for room now."""
        return self._pool.free and not self._closed and (self._fast_path is None or self._fast_path.full() is None)

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
        codec = "none"
        if type(messages) is bytes:  # the most common form first: isinstance with "|" takes five times as long
            listed: Sequence[Message] = (Message(messages, key=key),)
        elif isinstance(messages, MessageSet):
            codec = messages.compression
            listed = messages.messages
        elif isinstance(messages, Message):
            listed = (messages,)
        elif isinstance(messages, bytes | bytearray | memoryview):  # a class derived from bytes, or a buffer
            listed = (Message(bytes(messages), key=key),)
        else:
            listed = tuple([each if isinstance(each, Message) else Message(each, key=key) for each in messages])
        if self._closed:
            return fail(ClientClosed("the producer is closed"))
        if topic not in self._checked:
            try:
                check_topic_name(topic)
            except LogdError as error:
                return fail(error)
            self._checked.add(topic)
        clock = self._clock
        if self._tick is None:
            self._tick = clock.callLater(TICK_SECONDS, self._look)
        if self._fast_path is not None and codec == "none":
            short = self._fast_path.send(topic, listed, partition, key)
            if short is not None:
                return short
        send = PendingSend(topic, listed, partition, key, codec, clock.seconds() + self.settings.delivery_timeout)
        deferred: Deferred[Sent] = send.deferred  # type: ignore[assignment]  # it is there until it fires
        if not listed:
            send.part_sent(Sent(topic, -1 if partition is None else partition))
            return deferred
        self._sequence += 1
        send.sequence = self._sequence
        send.owner = self
        self._unfinished[send] = None
        pool = self._pool
        if pool.free:
            self._router.submit(send)
            return deferred
        try:
            waiting = _Waiting(self, send)
            waiting.place = pool.wait(waiting.admit)
            send.holders = (waiting,)
        except ProducerBufferFull as error:
            send.fail(error)
        return deferred

    def ready(self) -> Deferred[None]:
        """Return a Deferred that fires once there is room, behind all sends that wait. Cancellable.

        Fails with ClientClosed.
        """
        if self._closed:
            return fail(ClientClosed("the producer is closed"))
        full = None if self._fast_path is None else self._fast_path.full()
        if full is None:
            return self._pool.ready()
        return full.addBoth(lambda _: self._pool.ready())

    def flush(self) -> Deferred[None]:
        """Send the batches that linger; fires once every earlier send has ended, well or not. Cancellable.

        The Deferred of each send says how that send ended.
        """
        if self._fast_path is not None:
            self._fast_path.write()
        waiting: Deferred[None] = Deferred(lambda d: None)
        if not self._unfinished:
            waiting.callback(None)
            return waiting
        self._flushes.append(_Flush(self._sequence, len(self._unfinished), waiting))
        if self.settings.linger > 0:
            for send in self._unfinished:  # sends that wait for room or metadata are in no queue yet
                send.hurry = True
            for queue in self._router.all_queues():
                queue.flush()
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
        flushing = self.flush()
        with suppress(CancelledError, defer.TimeoutError):
            await with_timeout(self._clock, timeout, flushing)
        self._ended = True
        self._router.close()
        self._pool.open()
        for send in list(self._unfinished):
            send.fail(ClientClosed("the producer was closed before this was delivered"))
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        await self._cluster.close()

    def finished(self, send: PendingSend) -> None:
        """Take note that a send has ended."""
        del self._unfinished[send]
        if self._flushes:
            for flush in self._flushes:
                if send.sequence <= flush.sequence:
                    flush.left -= 1
            done = [flush for flush in self._flushes if not flush.left]
            self._flushes = [flush for flush in self._flushes if flush.left]
            for flush in done:
                if not flush.waiting.called:
                    flush.waiting.callback(None)

    def admitted(self, send: PendingSend) -> None:
        """Submit a send that has waited for room."""
        if not self._ended:
            self._router.submit(send)

    def leave(self, place: BufferWaiter) -> None:
        """Give up the place of a cancelled send that waited for room."""
        self._pool.leave(place)

    def _look(self) -> None:
        self._tick = None
        self._router.expire()
        if self._fast_path is not None:
            self._fast_path.moved()
        if self._unfinished:
            self._tick = self._clock.callLater(TICK_SECONDS, self._look)


@define(eq=False)
class _Flush:
    """A call of ``flush``: the number of unfinished sends (``left``) up to number ``sequence``."""

    sequence: int
    left: int
    waiting: Deferred[None]


class _Waiting:
    """A send that waits for room in the buffer pool."""

    def __init__(self, producer: Producer, send: PendingSend) -> None:
        self._producer = producer
        self._send = send
        self.place: BufferWaiter | None = None

    def admit(self) -> None:
        self._send.holders = ()
        self._producer.admitted(self._send)

    def withdraw(self, send: PendingSend) -> None:
        send.fail(CancelledError())
        if self.place is not None:
            self._producer.leave(self.place)
