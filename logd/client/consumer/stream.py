"""A stream of messages: what an application reads the partitions given to it from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from twisted.internet.defer import Deferred, succeed

from logd.client.consumer.consumer_state import ConsumerState
from logd.client.consumer.dropped import when_dropped
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.stream_state import StreamState
from logd.errors import ClientClosed
from logd.protocol.message import Message


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

    A stream counts as dropped once neither the application nor a coroutine that waits for it refers to it any more: it
    is closed then, with a warning in the log. As long as the traceback of an error is kept, so are the streams of the
    functions that the error passed.
    """

    def __init__(self, state: StreamState, consumer: object, inside: ConsumerState) -> None:
        """``inside`` is told once nobody has the stream any more, which keeps ``consumer`` until then."""
        #: What there is behind it: for the other parts of the client.
        self.state = state
        self._consumer = consumer
        self._inside = inside
        self._dropped = when_dropped(self, inside.cluster.clock, inside.dropped, state)

    @property
    def topic(self) -> str:
        """The topic's name, or the pattern's text."""
        return self.state.topic

    # How to read.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Each message; the fastest way but for ``batches`` and ``raw``."""
        state = self.state
        while True:
            for message in state.messages:
                yield message
            if await state.next(state.take_messages) is None:
                return

    async def batches(self, until: Mapping[int, int] | None = None) -> AsyncIterator[MessageBatch]:
        """Batches of messages of one partition each, at most ``decode_messages``.

        ``until``: end once the partitions in it have reached these positions (see ``end_positions``).
        """
        state = self.state
        begun = state.take_begun()
        if begun is not None:
            yield begun
        ended = state.ended(until)
        while not ended():
            batch = await state.next(state.take_batch, ended)
            if batch is None:
                return
            yield batch

    async def raw(self, until: Mapping[int, int] | None = None) -> AsyncIterator[RawChunk]:
        """The bytes of the log as they come, not decoded and not checked. ``until`` as with ``batches``."""
        state = self.state
        ended = state.ended(until)
        while not ended():
            chunk = await state.next(state.take_raw, ended)
            if chunk is None:
                return
            yield chunk

    def get(self) -> Deferred[Message]:
        """One message. Cancellable: a message is never lost by that. Several at once are served in order."""
        for message in self.state.messages:
            return succeed(message)
        return Deferred.fromCoroutine(self._get())

    # Where it is.

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """The position behind what was handed over, for each partition; -1 where the start is not known yet.

        ``topic``: by default the stream's own; that of a group's pattern has several.
        """
        return self.state.positions(topic)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Go on at ``position`` in one partition, dropping what is held of it; a failed stream goes on.

        ``topic`` as in ``positions``. Raises WrongPartition when the partition is not this stream's, ConfigurationError
        for a negative position.
        """
        self.state.seek(partition, position, topic)

    def end_positions(self, topic: str | None = None) -> Deferred[dict[int, int]]:
        """Where each partition's visible log ends now; ``topic`` as in ``positions``.

        Fails with BrokerUnavailable or a WireError; cancellable.
        """
        return Deferred.fromCoroutine(self._end_positions(topic))

    def assigned(self) -> Deferred[tuple[int, ...]]:
        """The stream's partitions, once they are known. Fails as reading does."""
        return Deferred.fromCoroutine(self._wait_assigned())

    @property
    def failed(self) -> bool:
        """Whether reading fails until ``seek``."""
        return self.state.failure is not None

    @property
    def gaps(self) -> int:
        """How many gaps (entries that were removed) were passed."""
        return self.state.counted("gaps")

    @property
    def gap_bytes(self) -> int:
        """The bytes of those."""
        return self.state.counted("gap_bytes")

    @property
    def skipped(self) -> int:
        """How many damaged places were skipped (``on_corrupt`` = "skip")."""
        return self.state.counted("skipped")

    @property
    def skipped_bytes(self) -> int:
        """The bytes of those."""
        return self.state.counted("skipped_bytes")

    @property
    def jumps(self) -> int:
        """How often a position was not in the log (any more), and reading went on elsewhere (``on_out_of_range``)."""
        return self.state.counted("jumps")

    def close(self) -> None:
        """End the stream: iterations end, nothing more is fetched for it."""
        if not self.state.closed:
            self._inside.end(self.state)

    def let_go(self) -> None:
        """Do now what is done once the stream is dropped: for what stands between it and the application."""
        self._dropped()

    # Coroutines, which keep the stream while it is waited for.

    async def _get(self) -> Message:
        state = self.state
        messages = await state.next(state.take_messages)
        if messages is None:
            raise ClientClosed(f"the stream of topic {self.topic!r} is closed")
        return next(messages)

    async def _wait_assigned(self) -> tuple[int, ...]:
        return await self.state.wait_assigned()

    async def _end_positions(self, topic: str | None) -> dict[int, int]:
        return await self.state.end_positions(topic)
