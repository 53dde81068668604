"""Streams of messages for asyncio's tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

from logd.aio.handlers import handler_of
from logd.aio.loop_bond import LoopBond
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.handling import Handler
from logd.client.consumer.stream import MessageStream
from logd.errors import ClientClosed
from logd.protocol.message import Message


class AsyncioStream:
    """``logd.client.consumer.stream.MessageStream`` for the tasks of one event loop. Fails as it does.

    A task that is cancelled while it waits loses no message: the next one to read goes on where it was. When dropped,
    the stream is closed like a MessageStream.
    """

    def __init__(self, bond: LoopBond, stream: MessageStream) -> None:
        self._bond = bond
        self._stream = stream

    @property
    def topic(self) -> str:
        """Return the topic's name, or the pattern's text."""
        return self._stream.topic

    # Reading.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield each message; only ``batches`` and ``raw`` are faster."""
        bond = self._bond
        bond.check()
        state = self._stream.state
        while True:
            for message in state.messages:
                yield message
            if await bond.drive(state.next(state.take_messages)) is None:
                return

    async def batches(self, until: Mapping[int, int] | None = None) -> AsyncIterator[MessageBatch]:
        """Yield batches of messages of one partition each, at most ``decode_messages``.

        ``until``: positions by partition; the iteration ends once all of them are reached (see ``end_positions``).
        """
        self._bond.check()
        batches = self._stream.batches(until)
        while (batch := await self._bond.drive(anext(batches, None))) is not None:
            yield batch

    async def raw(self, until: Mapping[int, int] | None = None) -> AsyncIterator[RawChunk]:
        """Yield the bytes of the log as they arrive, not decoded and not checked. ``until`` is as in ``batches``."""
        self._bond.check()
        chunks = self._stream.raw(until)
        while (chunk := await self._bond.drive(anext(chunks, None))) is not None:
            yield chunk

    async def get(self) -> Message:
        """Return one message. Concurrent calls are served in order. Raises ClientClosed once the stream is closed."""
        self._bond.check()
        state = self._stream.state
        for message in state.messages:
            return message
        messages = await self._bond.drive(state.next(state.take_messages))
        if messages is None:
            raise ClientClosed(f"the stream of topic {self.topic!r} is closed")
        return next(messages)

    async def handle(self, function: Handler, *, dead_letters: str | None = None, **settings: Any) -> None:
        """Call ``function(message)`` with each message until the stream is closed; see MessageStream.handle.

        The function may be a coroutine function, or return an awaitable. Raises what ``MessageStream.handle`` fails
        with. Cancelling the task cancels the functions under way.
        """
        self._bond.check()
        handler = handler_of(self._bond.loop, function)
        await self._bond.future(self._stream.handle(handler, dead_letters=dead_letters, **settings))

    # Positions and counts.

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """Return the position behind the messages handed over, for each partition; -1 while its start is not known.

        ``topic``: by default the stream's own; a stream of a group's pattern has several.
        """
        return self._stream.positions(topic)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at ``position`` in one partition; see MessageStream. Raises WrongPartition, ConfigurationError."""
        self._bond.check()
        self._stream.seek(partition, position, topic)

    async def end_positions(self, topic: str | None = None) -> dict[int, int]:
        """Return the present end of each partition's visible log. Raises BrokerUnavailable or a WireError."""
        self._bond.check()
        return await self._bond.future(self._stream.end_positions(topic))

    async def assigned(self) -> tuple[int, ...]:
        """Return the stream's partitions, once they are known. Raises what reading raises."""
        self._bond.check()
        return await self._bond.future(self._stream.assigned())

    @property
    def failed(self) -> bool:
        """Return whether reading fails until ``seek``."""
        return self._stream.failed

    @property
    def gaps(self) -> int:
        """Return the number of gaps (entries that were removed) that were passed."""
        return self._stream.gaps

    @property
    def gap_bytes(self) -> int:
        """Return the bytes of the gaps that were passed."""
        return self._stream.gap_bytes

    @property
    def skipped(self) -> int:
        """Return the number of damaged places that were skipped (``on_corrupt`` = "skip")."""
        return self._stream.skipped

    @property
    def skipped_bytes(self) -> int:
        """Return the bytes of the damaged places that were skipped."""
        return self._stream.skipped_bytes

    @property
    def jumps(self) -> int:
        """Return the number of times that reading jumped, because a position was no longer in the log."""
        return self._stream.jumps

    def close(self) -> None:
        """End the stream: iterations end, and nothing more is fetched for it."""
        self._bond.check()
        self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End this stream; other streams of its consumer go on."""
        self.close()
