"""A stream of messages: what an application reads the partitions given to it from."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from operator import length_hint
from typing import TypeVar

from twisted.internet.defer import Deferred, succeed

from logd.client.deliveries import MessageBatch, RawChunk
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


class MessageStream:
    """An endless stream over some partitions of one topic; each partition's messages come in order.

    Read it in one of these ways (they share one place in each partition): ``async for message in stream``,
    ``stream.batches()``, ``stream.raw()``, ``stream.get()``. Each of them fails with

    - CorruptMessage: an entry is damaged, and ``on_corrupt`` is "fail"; ``seek`` may go on behind it;
    - OffsetOutOfRange: the position is gone, and ``on_out_of_range`` is "fail";
    - another WireError that trying again does not cure, such as InvalidTopic.

    Iterations end, and ``get`` fails with ClientClosed, once the stream is closed. A lost broker is waited for.
    """

    def __init__(self, topic: str, clock: Clock, fetcher: Fetcher, settings: ConsumerSettings) -> None:
        self.topic = topic
        self._clock = clock
        self._fetcher = fetcher
        self._settings = settings
        self._feeds: dict[int, Feed] = {}
        #: Feeds that may have something, each once.
        self._ready: deque[Feed] = deque()
        self._waiting: list[Deferred[None]] = []
        #: The batch whose messages are being handed over one by one, and the iterator that does it.
        self._batch: MessageBatch | None = None
        self._messages: Iterator[Message] = iter(())
        self._assigned: list[Deferred[None]] | None = []
        self._since_turn = 0
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
        """Batches of messages of one partition each, at most ``decode_messages`` (a compressed wrapper counts as one).

        ``until``: end once the partitions in it have reached these positions (see ``end_positions``).
        """
        if length_hint(self._messages) and self._batch is not None:
            yield self._rest(self._batch)
        while not self._reached(until):
            batch = await self._next(self._take_batch)
            if batch is None:
                return
            yield batch

    async def raw(self, until: Mapping[int, int] | None = None) -> AsyncIterator[RawChunk]:
        """The bytes of the log as they come, not decoded and not checked. ``until`` as with ``batches``."""
        while not self._reached(until):
            chunk = await self._next(self._take_raw)
            if chunk is None:
                return
            yield chunk

    def get(self) -> Deferred[Message]:
        """One message. Cancellable: a message is never lost by that. Several at once are served in order."""
        for message in self._messages:
            return succeed(message)
        return Deferred.fromCoroutine(self._get())

    # Where it is.

    def positions(self) -> dict[int, int]:
        """The position behind what was handed over, for each partition; -1 where the start is not known yet."""
        positions = {number: feed.position for number, feed in self._feeds.items()}
        batch = self._batch
        if batch is not None and length_hint(self._messages):
            delivered = len(batch.messages) - length_hint(self._messages)
            positions[batch.partition] = batch.messages[delivered - 1].next_position if delivered else batch.position
        return positions

    def seek(self, partition: int, position: int) -> None:
        """Go on at ``position`` in one partition, dropping what is held of it; a failed stream goes on.

        Raises WrongPartition when the partition is not this stream's, ConfigurationError for a negative position.
        """
        check_start(position)
        feed = self._feeds.get(partition)
        if feed is None:
            mine = sorted(self._feeds)
            raise WrongPartition(f"partition {partition} of topic {self.topic!r} is not this stream's: {mine}")
        if self._batch is not None and self._batch.partition == partition:
            self._batch.messages.clear()  # which ends the iterator over them, wherever it is held
            self._batch = None
        feed.seek(position)
        self._failure = next((each.error for each in self._feeds.values() if each.error is not None), None)
        self._fetcher.wake()

    def end_positions(self) -> Deferred[dict[int, int]]:
        """Where each partition's visible log ends now. Fails with BrokerUnavailable or a WireError; cancellable."""
        return Deferred.fromCoroutine(self._end_positions())

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
        return sum(feed.gaps for feed in self._feeds.values())

    @property
    def gap_bytes(self) -> int:
        """The bytes of those."""
        return sum(feed.gap_bytes for feed in self._feeds.values())

    @property
    def skipped(self) -> int:
        """How many damaged places were skipped (``on_corrupt`` = "skip")."""
        return sum(feed.skipped for feed in self._feeds.values())

    @property
    def skipped_bytes(self) -> int:
        """The bytes of those."""
        return sum(feed.skipped_bytes for feed in self._feeds.values())

    def close(self) -> None:
        """End the stream: iterations end, nothing more is fetched for it."""
        if not self._closed:
            self._closed = True
            for feed in self._feeds.values():
                self._fetcher.remove(feed)
            self._ready.clear()
            self._notify()

    # What the consumer tells it.

    def assign(self, feeds: list[Feed]) -> None:
        """These are the stream's partitions."""
        if self._closed:
            return
        for feed in feeds:
            self._feeds[feed.partition] = feed
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

    def _arrived(self, feed: Feed) -> None:
        if feed.error is not None:
            self._failure = feed.error
        elif feed not in self._ready:
            self._ready.append(feed)
        self._notify()

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)

    async def _next(self, take: Callable[[], T | None]) -> T | None:
        """What ``take`` returns once there is something; None when the stream is closed."""
        if self._since_turn >= TURN_BYTES:
            self._since_turn = 0
            turn: Deferred[None] = Deferred()
            self._clock.callLater(0, turn.callback, None)
            await turn
        while not self._closed:
            taken = take()
            if taken is not None:
                return taken
            if self._failure is not None:
                raise self._failure
            self._since_turn = 0
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting
        return None

    def _take_batch(self) -> MessageBatch | None:
        ready = self._ready
        while ready:
            feed = ready[0]
            held = feed.buffered
            batch = feed.next_batch(self._settings.decode_messages)
            if feed.buffered != held or batch is None:
                self._fetcher.wake()
            if batch is not None:
                self._since_turn += batch.next_position - batch.position
                if len(ready) > 1:
                    ready.rotate(-1)
                return batch
            ready.popleft()
            if feed.error is not None:
                self._failure = feed.error
        return None

    def _take_raw(self) -> RawChunk | None:
        ready = self._ready
        while ready:
            feed = ready.popleft()
            chunk = feed.next_raw()
            if chunk is not None:
                ready.append(feed)
                self._fetcher.wake()
                return chunk
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
        position = self.positions()[batch.partition]
        rest = batch._replace(messages=list(self._messages), position=position)
        self._batch = None
        return rest

    async def _get(self) -> Message:
        messages = await self._next(self._take_messages)
        if messages is None:
            raise ClientClosed(f"the stream of topic {self.topic!r} is closed")
        return next(messages)

    def _reached(self, until: Mapping[int, int] | None) -> bool:
        if until is None:
            return False
        positions = self.positions()
        return all(positions.get(partition, -1) >= end for partition, end in until.items())

    async def _wait_assigned(self) -> tuple[int, ...]:
        if self._assigned is not None:
            waiting: Deferred[None] = Deferred()
            self._assigned.append(waiting)
            await waiting
        elif self._failure is not None and not self._feeds:
            raise self._failure
        return tuple(sorted(self._feeds))

    async def _end_positions(self) -> dict[int, int]:
        return {number: await self._fetcher.visible_end(self.topic, number) for number in await self._wait_assigned()}
