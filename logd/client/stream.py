"""A stream of messages: what an application reads the partitions given to it from."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from operator import length_hint
from typing import TypeVar

from twisted.internet.defer import Deferred, succeed

from logd.client.deliveries import MessageBatch, RawChunk
from logd.client.ends import Ends
from logd.client.feed import Feed
from logd.client.fetcher import Fetcher
from logd.client.settings import ConsumerSettings
from logd.client.starts import check_start
from logd.errors import ClientClosed, WrongPartition
from logd.interfaces import Clock
from logd.protocol.message import Message

T = TypeVar("T")

#: Raw bytes that are handed over before the reactor gets a turn, so that it reads from the network meanwhile.
TURN_BYTES = 1 << 20
#: Bytes that a message counts as at least in those: it costs time however short it is.
MESSAGE_BYTES = 100
#: What a Feed counts.
COUNTED = ("gaps", "gap_bytes", "skipped", "skipped_bytes", "jumps")


class MessageStream:
    """An endless stream over some partitions of one topic; each partition's messages come in order.

    Read it in one of these ways (they share one place in each partition): ``async for message in stream``,
    ``stream.batches()``, ``stream.raw()``, ``stream.get()``. Each of them fails with

    - CorruptMessage: an entry is damaged, and ``on_corrupt`` is "fail"; ``seek`` may go on behind it;
    - WrapperTooLarge: a compressed wrapper would become more than ``max_decompressed`` bytes or
      ``max_decompressed_messages``; ``seek`` may go on at its ``end``;
    - OffsetOutOfRange: the position is gone, and ``on_out_of_range`` is "fail";
    - another WireError that trying again does not cure, such as InvalidTopic.

    Iterations end, and ``get`` fails with ClientClosed, once the stream is closed. A lost broker is waited for.
    """

    def __init__(self, topic: str, clock: Clock, fetcher: Fetcher, settings: ConsumerSettings) -> None:
        self.topic = topic
        self._clock = clock
        self._fetcher = fetcher
        self._settings = settings
        self._feeds: dict[tuple[str, int], Feed] = {}
        #: Feeds that may have something, each once.
        self._ready: OrderedDict[Feed, None] = OrderedDict()
        self._waiting: list[Deferred[None]] = []
        #: The position before the raw chunk that was taken last, which may be inside its first entry.
        self._raw_from = -1
        #: The batch whose messages are being handed over one by one, and the iterator that does it.
        self._batch: MessageBatch | None = None
        self._messages: Iterator[Message] = iter(())
        self._assigned: list[Deferred[None]] | None = []
        self._since_turn = 0
        #: How often the application said where to go on.
        self._seeks = 0
        #: What was counted of partitions that are not the stream's any more.
        self._former: Counter[str] = Counter()
        self._failure: Exception | None = None
        self._closed = False

    # How to read.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Each message; the fastest way but for ``batches`` and ``raw``."""
        while True:
            for message in self._messages:
                yield message
            if await self._next(self._take_messages) is None:
                return

    async def batches(self, until: Mapping[int, int] | None = None) -> AsyncIterator[MessageBatch]:
        """Batches of messages of one partition each, at most ``decode_messages``.

        ``until``: end once the partitions in it have reached these positions (see ``end_positions``).
        """
        if length_hint(self._messages) and self._batch is not None:
            yield self._rest(self._batch)
        ended = self._ended(until)
        while not ended():
            batch = await self._next(self._take_batch, ended)
            if batch is None:
                return
            yield batch

    async def raw(self, until: Mapping[int, int] | None = None) -> AsyncIterator[RawChunk]:
        """The bytes of the log as they come, not decoded and not checked. ``until`` as with ``batches``."""
        ended = self._ended(until)
        while not ended():
            chunk = await self._next(self._take_raw, ended)
            if chunk is None:
                return
            yield chunk

    def get(self) -> Deferred[Message]:
        """One message. Cancellable: a message is never lost by that. Several at once are served in order."""
        for message in self._messages:
            return succeed(message)
        return Deferred.fromCoroutine(self._get())

    # Where it is.

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """The position behind what was handed over, for each partition; -1 where the start is not known yet.

        ``topic``: by default the stream's own; that of a group's pattern has several.
        """
        topic = self.topic if topic is None else topic
        positions = {feed.partition: feed.position for feed in self._feeds.values() if feed.topic == topic}
        batch = self._batch
        if batch is not None and batch.topic == topic and length_hint(self._messages):
            positions[batch.partition] = self._begun(batch)
        return positions

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Go on at ``position`` in one partition, dropping what is held of it; a failed stream goes on.

        ``topic`` as in ``positions``. Raises WrongPartition when the partition is not this stream's, ConfigurationError
        for a negative position.
        """
        check_start(position)
        topic = self.topic if topic is None else topic
        feed = self._feeds.get((topic, partition))
        if feed is None:
            mine = sorted(number for name, number in self._feeds if name == topic)
            raise WrongPartition(f"partition {partition} of topic {topic!r} is not this stream's: {mine}")
        if self._batch is not None and (self._batch.topic, self._batch.partition) == (topic, partition):
            self._batch.messages.clear()  # which ends the iterator over them, wherever it is held
            self._batch = None
        feed.seek(position)
        self._seeks += 1
        if self._failure is not None:
            self._failure = next((each.error for each in self._feeds.values() if each.error is not None), None)
        self._fetcher.wake(feed)

    def end_positions(self, topic: str | None = None) -> Deferred[dict[int, int]]:
        """Where each partition's visible log ends now; ``topic`` as in ``positions``.

        Fails with BrokerUnavailable or a WireError; cancellable.
        """
        return Deferred.fromCoroutine(self._end_positions(self.topic if topic is None else topic))

    def assigned(self) -> Deferred[tuple[int, ...]]:
        """The stream's partitions, once they are known. Fails as reading does."""
        return Deferred.fromCoroutine(self._wait_assigned())

    @property
    def failed(self) -> bool:
        """Whether reading fails until ``seek``."""
        return self._failure is not None

    @property
    def gaps(self) -> int:
        """How many gaps (entries that were removed) were passed."""
        return self._counted("gaps")

    @property
    def gap_bytes(self) -> int:
        """The bytes of those."""
        return self._counted("gap_bytes")

    @property
    def skipped(self) -> int:
        """How many damaged places were skipped (``on_corrupt`` = "skip")."""
        return self._counted("skipped")

    @property
    def skipped_bytes(self) -> int:
        """The bytes of those."""
        return self._counted("skipped_bytes")

    @property
    def jumps(self) -> int:
        """How often a position was not in the log (any more), and reading went on elsewhere (``on_out_of_range``)."""
        return self._counted("jumps")

    def close(self) -> None:
        """End the stream: iterations end, nothing more is fetched for it."""
        if not self._closed:
            self._closed = True
            for feed in self._feeds.values():
                self._fetcher.remove(feed)
                feed.close()
            self._ready.clear()
            self._notify()

    # What the consumer tells it.

    def assign(self, feeds: list[Feed]) -> None:
        """These are the stream's partitions."""
        if self._closed:
            return
        for feed in feeds:
            self._feeds[feed.topic, feed.partition] = feed
            self._fetcher.add(feed, self._arrived)
        assigned, self._assigned = self._assigned or [], None
        for waiting in assigned:
            waiting.callback(None)

    def fail(self, error: Exception) -> None:
        """There will be no partitions."""
        self._failure = error
        assigned, self._assigned = self._assigned or [], None
        for waiting in assigned:
            waiting.errback(error)
        self._notify()

    # The inside.

    def _counted(self, name: str) -> int:
        now: int = sum(getattr(feed, name) for feed in self._feeds.values())
        return self._former[name] + now

    def _arrived(self, feed: Feed) -> None:
        if feed.error is not None:
            self._failure = feed.error
        elif feed not in self._ready:
            self._ready[feed] = None
        self._notify()

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)

    async def _next(self, take: Callable[[], T | None], ended: Callable[[], bool] | None = None) -> T | None:
        """What ``take`` returns once there is something; None when the stream is closed, or reading has ``ended``."""
        self._asked()
        if self._since_turn >= TURN_BYTES:
            await self._turn()
        while not self._closed:
            taken = take()
            if taken is not None:
                return taken
            if self._failure is not None:
                raise self._failure
            if ended is not None and ended():  # a position became known, and it is the end
                return None
            if self._since_turn >= TURN_BYTES:
                await self._turn()
                continue
            self._since_turn = 0
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting
        return None

    async def _turn(self) -> None:
        """Let the reactor do other things before more is decoded."""
        self._since_turn = 0
        turn: Deferred[None] = Deferred()
        self._clock.callLater(0, turn.callback, None)
        await turn

    def _asked(self) -> None:
        """The application asks for the next batch, or for a message behind the last one of a batch."""

    def _take_batch(self) -> MessageBatch | None:
        ready = self._ready
        while ready:
            feed = next(iter(ready))
            held = feed.buffered
            batch = feed.next_batch(self._settings.decode_messages)
            if feed.buffered != held or batch is None or not batch.messages:
                self._fetcher.wake(feed)
            if batch is not None:
                size = batch.next_position - batch.position
                self._since_turn += max(size, MESSAGE_BYTES * len(batch.messages))
                if feed.unfinished:  # so that a stream has one wrapper open at most
                    self._since_turn = TURN_BYTES
                elif len(ready) > 1:
                    ready.move_to_end(feed)
                return batch
            if feed.unfinished:
                self._since_turn = TURN_BYTES
                return None
            del ready[feed]
            if feed.error is not None:
                self._failure = feed.error
        return None

    def _take_raw(self) -> RawChunk | None:
        ready = self._ready
        while ready:
            feed = next(iter(ready))
            self._raw_from = feed.position
            chunk = feed.next_raw()
            if chunk is not None:
                ready.move_to_end(feed)
                self._fetcher.wake(feed)
                return chunk
            del ready[feed]
            self._fetcher.wake(feed)
            if feed.error is not None:
                self._failure = feed.error
        return None

    def _take_messages(self) -> Iterator[Message] | None:
        """The iterator over messages that are to be handed over one by one, if there are any."""
        while not length_hint(self._messages):
            batch = self._take_batch()
            if batch is None:
                return None
            self._batch = batch
            self._messages = iter(batch.messages)
        return self._messages

    def _rest(self, batch: MessageBatch) -> MessageBatch:
        """What is left of a batch that was begun message by message."""
        position = self._begun(batch)
        rest = batch._replace(messages=list(self._messages), position=position)
        self._batch = None
        return rest

    def _begun(self, batch: MessageBatch) -> int:
        """The position behind those of a batch's messages that were handed over one by one."""
        delivered = len(batch.messages) - length_hint(self._messages)
        return batch.messages[delivered - 1].next_position if delivered else batch.position

    async def _get(self) -> Message:
        messages = await self._next(self._take_messages)
        if messages is None:
            raise ClientClosed(f"the stream of topic {self.topic!r} is closed")
        return next(messages)

    def _ended(self, until: Mapping[int, int] | None) -> Callable[[], bool]:
        """A function that says whether the positions in ``until`` are reached; without any they never are."""
        if until is None:
            return lambda: False
        ends = Ends(until)
        return lambda: ends.reached(self._position_of, self._seeks)

    def _position_of(self, partition: int) -> int:
        """The position behind what was handed over of a partition; -1 where that is not known, or it is not here."""
        feed = self._feeds.get((self.topic, partition))
        if feed is None:
            return -1
        batch = self._batch
        in_hand = batch is not None and (batch.topic, batch.partition) == (self.topic, partition)
        if batch is not None and in_hand and length_hint(self._messages):
            return self._begun(batch)
        return feed.position

    async def _wait_assigned(self) -> tuple[int, ...]:
        if self._assigned is not None:
            waiting: Deferred[None] = Deferred()
            self._assigned.append(waiting)
            await waiting
        elif self._failure is not None and not self._feeds:
            raise self._failure
        return tuple(sorted(number for _, number in self._feeds))

    async def _end_positions(self, topic: str) -> dict[int, int]:
        await self._wait_assigned()
        mine = [number for name, number in self._feeds if name == topic]
        return await self._fetcher.visible_ends(topic, mine)
