"""A stream of messages, from which an application reads the partitions given to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed

from logd.client.consumer.consumer_state import ConsumerState
from logd.client.consumer.dropped import when_dropped
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.handling import Handler, Handling, HandlingSettings
from logd.client.consumer.stream_state import StreamState
from logd.client.dead_letters.writer import DeadLetters, check_not_read
from logd.client.setting_names import read_settings
from logd.errors import ClientClosed
from logd.protocol.message import Message


class MessageStream:
    """An endless stream over some partitions of one topic; each partition's messages come in order.

    Read it in one of these ways (they share one position in each partition): ``async for message in stream``,
    ``stream.batches()``, ``stream.raw()``, ``stream.get()``. Each of them fails with

    - CorruptMessage: an entry is damaged, and ``on_corrupt`` is "fail"; ``seek`` may continue behind it;
    - WrapperTooLarge: a compressed wrapper holds more than ``max_decompressed`` bytes or ``max_decompressed_messages``
      messages; ``seek`` may continue at its ``end``;
    - OffsetOutOfRange: the position is gone, and ``on_out_of_range`` is "fail";
    - another WireError that trying again does not cure, such as InvalidTopic.

    Iterations end, and ``get`` fails with ClientClosed, once the stream is closed. A lost broker is waited for.

    A stream counts as dropped once neither the application nor a coroutine that waits for it refers to it any more: it
    is then closed, with a warning in the log. While the traceback of an error is kept, the streams of the functions
    that the error passed are kept too.
    """

    def __init__(self, state: StreamState, consumer: object, consumer_state: ConsumerState) -> None:
        """Read through ``state``, and keep ``consumer`` alive. ``consumer_state`` is told when this is dropped."""
        #: The state behind the stream, for the other parts of the client.
        self.state = state
        self._consumer = consumer
        self._consumer_state = consumer_state
        self._dropped = when_dropped(self, consumer_state.cluster.clock, consumer_state.dropped, state)

    @property
    def topic(self) -> str:
        """Return the topic's name, or the pattern's text."""
        return self.state.topic

    # Reading.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield each message; the fastest way but for ``batches`` and ``raw``."""
        state = self.state
        while True:
            for message in state.messages:
                yield message
            if await state.next(state.take_messages) is None:
                return

    async def batches(self, until: Mapping[int, int] | None = None) -> AsyncIterator[MessageBatch]:
        """Yield batches of messages of one partition each, at most ``decode_messages``.

        ``until``: end once the partitions in it have reached these positions (see ``end_positions``). Raises
        WrongPartition for one that the stream does not have; a group's stream waits until it is given it.
        """
        state = self.state
        ended = state.ended(until)
        while not ended():
            batch = await state.next(state.take_rest_or_batch, ended)
            if batch is None:
                return
            yield batch

    async def raw(self, until: Mapping[int, int] | None = None) -> AsyncIterator[RawChunk]:
        """Yield the bytes of the log as they come, not decoded and not checked. ``until`` as in ``batches``."""
        state = self.state
        ended = state.ended(until)
        while not ended():
            chunk = await state.next(state.take_raw, ended)
            if chunk is None:
                return
            yield chunk

    def get(self) -> Deferred[Message]:
        """Return one message. Cancellable, without losing a message. Concurrent calls are served in order."""
        for message in self.state.messages:
            return succeed(message)
        return Deferred.fromCoroutine(self._get())

    def handle(self, function: Handler, *, dead_letters: str | None = None, **settings: Any) -> Deferred[None]:
        """Call ``function(message)`` with each message until the stream is closed, and then fire. Cancellable.

        A Deferred or coroutine that the function returns is waited for. If it fails, the message is tried again, up to
        ``retries`` times with growing delays; then it is published to the topic ``dead_letters`` (by default the
        consumer's setting), with where it came from and why, and counts as handled once it is flushed there. Without
        ``dead_letters`` the handling fails with the error. The messages of one partition are handled one after
        another. In a group, exactly the handled ones are committed, whatever ``commit`` is: a crash repeats some, and
        loses none.

        ``settings`` are those of HandlingSettings, by name: ``retries``, ``retry_delay``, ``retry_delay_limit``,
        ``concurrency``, ``timeout``. Fails with

        - DeadLetterFailed: the dead-letter topic could not be written within ``dead_letter_timeout`` seconds, or
          refuses the letter; the message is not passed;
        - ConfigurationError: the function is a generator; or the stream is being handled already;
        - the errors of reading.

        After an error, or when it is cancelled, handlers under way are cancelled, and reading (or another ``handle``)
        goes on at the first message of each partition that is not handled. Closing the stream ends it in order:
        messages in work are awaited, and retries given up. A partition that the group takes away gets no more retries.

        Raises ConfigurationError for a setting that is not allowed, and for ``dead_letters`` among the topics read.
        """
        (mine,) = read_settings(settings, HandlingSettings)
        letters = self.dead_letters(dead_letters)
        handling = Handling(self.state, function, mine, letters, self._consumer_state.cluster.random)

        async def run(_stream: MessageStream) -> None:  # the coroutine keeps the stream alive
            await handling.run()

        return Deferred.fromCoroutine(run(self))

    def dead_letters(self, topic: str | None = None) -> DeadLetters | None:
        """Return the writer of a dead-letter topic, by default the consumer's; None where the name is empty.

        Raises ConfigurationError if the topic is among those that the stream reads, InvalidTopic.
        """
        name = self._consumer_state.settings.dead_letters if topic is None else topic
        if not name:
            return None
        check_not_read(self.topic, name)
        return self._consumer_state.dead_letters(name)

    # Positions and counts.

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """Return the position behind the messages handed over, for each partition; -1 while its start is not known.

        ``topic``: by default the stream's own; a stream of a group's pattern has several.
        """
        return self.state.positions(topic)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at ``position`` in one partition, dropping the bytes held of it; a failed stream goes on.

        ``topic`` as in ``positions``. Raises WrongPartition when the partition is not this stream's, ConfigurationError
        for a negative position.
        """
        self.state.seek(partition, position, topic)

    def pause(self, partition: int, topic: str | None = None) -> None:
        """Hand over nothing more of one partition until ``resume``, while the others go on; ``topic`` as in ``seek``.

        For applications that handle partitions apart. Has no effect on a partition that is not the stream's, and ends
        when a group takes the partition away. ``get`` and ``async for`` still give the rest of a batch at hand.
        """
        self.state.pause(partition, topic)

    def resume(self, partition: int, topic: str | None = None) -> None:
        """Go on with a partition that was paused."""
        self.state.resume(partition, topic)

    def end_positions(self, topic: str | None = None) -> Deferred[dict[int, int]]:
        """Return the present end of each partition's visible log; ``topic`` as in ``positions``.

        Fails with BrokerUnavailable or a WireError; cancellable.
        """
        return Deferred.fromCoroutine(self._end_positions(topic))

    def assigned(self) -> Deferred[tuple[int, ...]]:
        """Return the stream's partitions, once they are known. Fails as reading does."""
        return Deferred.fromCoroutine(self._wait_assigned())

    @property
    def failed(self) -> bool:
        """Return whether reading fails until ``seek``."""
        return self.state.failure is not None

    @property
    def gaps(self) -> int:
        """Return the number of gaps (entries that were removed) that were passed."""
        return self.state.counted("gaps")

    @property
    def gap_bytes(self) -> int:
        """Return the bytes of the gaps that were passed."""
        return self.state.counted("gap_bytes")

    @property
    def skipped(self) -> int:
        """Return the number of damaged places that were skipped (``on_corrupt`` = "skip")."""
        return self.state.counted("skipped")

    @property
    def skipped_bytes(self) -> int:
        """Return the bytes of the damaged places that were skipped."""
        return self.state.counted("skipped_bytes")

    @property
    def jumps(self) -> int:
        """Return how often a position was not in the log and reading continued elsewhere (``on_out_of_range``)."""
        return self.state.counted("jumps")

    def close(self) -> None:
        """End the stream: iterations end, and nothing more is fetched for it."""
        if not self.state.closed:
            self._consumer_state.end(self.state)

    def treat_as_dropped(self) -> None:
        """Treat the stream as dropped now. For objects that stand between the stream and the application."""
        self._dropped()

    # Coroutines, which keep the stream alive while it is waited for.

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
