"""The producer: takes message sets, and delivers them in order, in batches, within a bound of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, fail

from logd.client.cluster import Cluster
from logd.client.interfaces import IPartitioner
from logd.client.link import Connect
from logd.client.partitioner import ChoosePartition, as_partitioner
from logd.client.pending import PendingSend, Sent
from logd.client.room import Room
from logd.client.router import Router
from logd.client.settings import LinkSettings, ProducerSettings
from logd.client.split import read_settings
from logd.errors import ClientClosed, LogdError, ProducerBufferFull
from logd.interfaces import Timer
from logd.protocol.message import Message
from logd.protocol.messageset import MessageSet
from logd.topic import check_topic_name

#: What ``send`` takes: a message or bytes (its payload), or several of them.
Messages = MessageSet | Message | bytes | Iterable[Message | bytes]

#: Seconds between looks at deadlines and the age of metadata, while something is unfinished.
TICK_SECONDS = 1.0


class Producer:
    """Publishes to topics of one cluster. Use it on the reactor's thread (``logd.client.blocking`` is for others).

    Settings are those of ProducerSettings and LinkSettings, by name, for instance ``Producer("host:6667", acks=1,
    linger=0.01)``.
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
        """``brokers``: where to begin (see addresses.parse_brokers). Nothing is connected before the first send.

        ``partitioner``: an IPartitioner or a function ``(topic, key, partitions) -> partition``; by default
        KeyedPartitioner. ``connect`` and ``random`` are seams for tests. Raises ConfigurationError for a setting that
        is unknown or not allowed.
        """
        if reactor is None:
            from twisted.internet import reactor  # installed by the import, so not before it is needed
        mine, links = read_settings(settings, ProducerSettings, LinkSettings)
        self.settings: ProducerSettings = mine
        more = {} if random is None else {"random": random}
        self._clock = reactor
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)
        self._room = Room(mine.buffer_bytes, mine.max_waiting)
        self._router = Router(self._cluster, mine, as_partitioner(partitioner), self._room)
        #: Every send that is not finished, in order.
        self._unfinished: dict[PendingSend, None] = {}
        self._checked: set[str] = set()
        self._tick: Timer | None = None
        self._closed = False

    @property
    def reactor(self) -> Any:
        """The reactor whose thread the producer belongs to."""
        return self._clock

    @property
    def has_room(self) -> bool:
        """Whether a send would not have to wait for room now."""
        return self._room.free and not self._closed

    @property
    def buffered_bytes(self) -> int:
        """Bytes of messages that are held, waiting or in flight."""
        return self._room.used

    def send(
        self, topic: str, messages: Messages, *, partition: int | None = None, key: bytes | None = None
    ) -> Deferred[Sent]:
        """Publish messages in order; fires with Sent: with acks 1 or -1 once the broker has them, with acks 0 once
        they are written.

        ``partition`` is where to; otherwise the partitioner decides, by ``key`` for the whole set, or message by
        message for those that have keys of their own. For messages given as bytes ``key`` is also their key. Sets of
        one destination stay in order, through retries too; what is delivered is at least once. An empty set fires at
        once.

        While ``buffer_bytes`` are held it waits its turn. Cancelling before the messages have left takes them back;
        later it only stops the waiting. Fails with:

        - ProducerBufferFull: ``max_waiting`` sends wait already;
        - MessageTooLarge, InvalidMessage: the client or the broker refused; sending it again would not help;
        - WrongPartition: there is no such partition; InvalidTopic, TopicCreationDisabled: no such topic can be had;
        - DeliveryFailed: it could not be delivered within ``delivery_timeout``; its cause is the last error.
          It may be stored;
        - ClientClosed: the producer was closed first; whatever the partitioner raises.

        Raises TypeError for what is no message.
        """
        codec = "none"
        if isinstance(messages, MessageSet):
            codec = messages.compression
            listed: Sequence[Message] = messages.messages
        elif isinstance(messages, Message):
            listed = (messages,)
        elif isinstance(messages, bytes | bytearray | memoryview):
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
        send = PendingSend(topic, listed, partition, key, codec, clock.seconds() + self.settings.delivery_timeout)
        deferred: Deferred[Sent] = send.deferred  # type: ignore[assignment]  # it is there until it fires
        if not listed:
            send.part_sent(Sent(topic, -1 if partition is None else partition))
            return deferred
        room = self._room
        if room.used < room.limit and room.free:
            self._unfinished[send] = None
            send.finished = self._finished
            self._router.submit(send)
            return deferred
        try:
            place = room.wait(lambda: self._admit(send))
        except ProducerBufferFull as error:
            send.fail(error)
            return deferred
        self._unfinished[send] = None
        send.finished = self._finished

        def withdraw() -> None:
            send.fail(CancelledError())
            room.leave(place)

        send.withdraw = withdraw
        return deferred

    def ready(self) -> Deferred[None]:
        """Fires once there is room for a send, behind all that wait already. Cancellable; fails with ClientClosed."""
        if self._closed:
            return fail(ClientClosed("the producer is closed"))
        return self._room.ready()

    def flush(self) -> Deferred[None]:
        """Send what lingers; fires once everything sent before has ended, well or not. Cancellable.

        Each send's own Deferred says how it ended.
        """
        waiting: Deferred[None] = Deferred(lambda d: None)
        if not self._unfinished:
            waiting.callback(None)
            return waiting
        left = len(self._unfinished)

        def one_ended(_: PendingSend) -> None:
            nonlocal left
            left -= 1
            if not left and not waiting.called:
                waiting.callback(None)

        for send in self._unfinished:
            send.finished = _both(send.finished, one_ended)
        for lane in self._router.all_lanes():
            lane.flush()
        return waiting

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """Flush, for at most ``timeout`` seconds (``delivery_timeout`` by default), then disconnect; fires when that
        is done.

        What was not delivered by then fails with ClientClosed. Never fails. Later sends fail with ClientClosed.
        """
        return Deferred.fromCoroutine(self._close(self.settings.delivery_timeout if timeout is None else timeout))

    async def _close(self, timeout: float) -> None:
        self._closed = True
        flushing = self.flush()
        with suppress(CancelledError, defer.TimeoutError):
            await flushing.addTimeout(timeout, self._clock)
        self._router.close()
        self._room.open()
        for send in list(self._unfinished):
            send.fail(ClientClosed("the producer was closed before this was delivered"))
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        await self._cluster.close()

    def _admit(self, send: PendingSend) -> None:
        if self._closed and self._room.limit != self.settings.buffer_bytes:
            return  # close() fails it
        send.withdraw = None
        self._router.submit(send)

    def _finished(self, send: PendingSend) -> None:
        del self._unfinished[send]

    def _look(self) -> None:
        self._tick = None
        self._router.expire()
        if self._unfinished:
            self._tick = self._clock.callLater(TICK_SECONDS, self._look)


def _both(
    first: Callable[[PendingSend], None] | None, second: Callable[[PendingSend], None]
) -> Callable[[PendingSend], None]:
    def call(send: PendingSend) -> None:
        if first is not None:
            first(send)
        second(send)

    return call
