"""The units that a stream hands over: batches of messages, or chunks of raw bytes."""

from __future__ import annotations

from typing import NamedTuple

from logd.client.consumer.fetching.losses import Loss
from logd.protocol.message import Message


class MessageBatch(NamedTuple):
    """Messages of one partition, in order. A batch may be empty, to report losses."""

    topic: str
    partition: int
    #: The messages. The list belongs to the receiver, which may change it.
    messages: list[Message]
    #: The position before the first message, in bytes.
    position: int
    #: The position at which to continue once these messages are handled.
    next_position: int
    #: The end of the partition's visible log when these bytes were fetched.
    visible_end: int
    #: The log passed without delivery since the last batch of the partition.
    losses: tuple[Loss, ...] = ()

    @property
    def at_end(self) -> bool:
        """Return whether the last message was the newest one when it was fetched."""
        return self.next_position >= self.visible_end


class RawChunk(NamedTuple):
    """Bytes of one partition's log as they are stored, neither decoded nor checked.

    A chunk may end inside an entry, which the partition's next chunk continues.
    """

    topic: str
    partition: int
    position: int
    #: A buffer, which the next read may reuse; ``bytes(data)`` makes a copy to keep.
    data: bytes | memoryview
    visible_end: int
    #: Jumps of the position before this chunk; gaps and damage are in the bytes themselves.
    losses: tuple[Loss, ...] = ()

    @property
    def next_position(self) -> int:
        """Return the position after the last byte."""
        return self.position + len(self.data)

    @property
    def at_end(self) -> bool:
        """Return whether this was the end of the visible log when it was fetched."""
        return self.next_position >= self.visible_end
