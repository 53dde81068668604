"""What a stream hands over: batches of messages, or chunks of raw bytes."""

from __future__ import annotations

from typing import NamedTuple

from logd.client.consumer.fetching.losses import Loss
from logd.protocol.message import Message


class MessageBatch(NamedTuple):
    """Messages of one partition, in order. It may be empty where only losses were passed."""

    topic: str
    partition: int
    #: They are the receiver's: it may change the list.
    messages: list[Message]
    #: The position before the first message, in bytes.
    position: int
    #: The position to go on at once these messages are dealt with.
    next_position: int
    #: Where the partition's visible log ended when these bytes were fetched.
    visible_end: int
    #: What was passed, since the last batch of the partition, without being delivered.
    losses: tuple[Loss, ...] = ()

    @property
    def at_end(self) -> bool:
        """Whether this was the newest message when it was fetched."""
        return self.next_position >= self.visible_end


class RawChunk(NamedTuple):
    """Bytes of one partition's log as they are stored, neither decoded nor checked.

    They may end inside an entry, with which the partition's next chunk goes on.
    """

    topic: str
    partition: int
    position: int
    #: A buffer; ``bytes(data)`` makes a copy of one's own.
    data: bytes | memoryview
    visible_end: int
    #: Jumps of the position before this chunk; gaps and damage are in the bytes.
    losses: tuple[Loss, ...] = ()

    @property
    def next_position(self) -> int:
        """The position after the last byte."""
        return self.position + len(self.data)

    @property
    def at_end(self) -> bool:
        """Whether this was the end of the visible log when it was fetched."""
        return self.next_position >= self.visible_end
