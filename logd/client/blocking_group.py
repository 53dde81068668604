"""A stream of a consumer group for code that blocks: what counts as handled is what the other thread has done."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any

from attrs import frozen

from logd.client.blocking_stream import BlockingStream
from logd.client.deliveries import MessageBatch
from logd.client.group_stream import GroupStream
from logd.client.reactorthread import call_there
from logd.protocol.message import Message
from logd.topic import TopicPartition


@frozen(eq=False)
class _InHand:
    """The batch that the application has; the iterator over it, if that goes message by message; its first length."""

    batch: MessageBatch
    messages: Iterator[Message] | None
    length: int


class BlockingGroupStream(BlockingStream):
    """``GroupStream`` for one thread: what counts as handled is what that thread has asked beyond.

    What lies between the threads does not, and is dropped when its partition is taken away.
    """

    def __init__(self, reactor: Any, stream: GroupStream) -> None:
        self._group_stream = stream
        self._hand: _InHand | None = None
        self._taken = stream.cross(self._telling, self._taken_away)
        super().__init__(reactor, stream)

    def handled(self, item: Message | MessageBatch) -> None:
        """See GroupStream.handled."""
        call_there(self._reactor, lambda: self._group_stream.handled(item))

    def _advance(self, timeout: float | None) -> bool:
        advanced = super()._advance(timeout)
        if advanced and self._batch is not None:
            self._hand = _InHand(self._batch, self._messages, len(self._batch.messages))
        return advanced

    def _next_batch(self, timeout: float | None) -> MessageBatch | None:
        hand, self._hand = self._hand, None
        if hand is not None and self._taken:
            item: MessageBatch | Message | None = hand.batch
            if hand.messages is not None and len(hand.batch.messages) < hand.length:  # the rest of it was taken away
                item = hand.batch.messages[-1] if hand.batch.messages else None
            if item is not None:
                self._reactor.callFromThread(self._group_stream.handled, item)
        batch = super()._next_batch(timeout)
        if batch is not None:
            self._hand = _InHand(batch, None, len(batch.messages))
        return batch

    # On the reactor's thread, while the other one may go on: of what it does meanwhile a message may come twice.

    def _telling(self) -> None:
        """Positions are asked for: count what the thread has handled of the batch that it is in."""
        hand = self._hand
        if self._taken and hand is not None and hand.messages is not None:
            delivered = len(hand.batch.messages) - length_hint(hand.messages)
            if delivered > 1:
                self._group_stream.handled(hand.batch.messages[delivered - 2])

    def _taken_away(self, where: TopicPartition | None, failed: bool) -> None:
        """A partition is another's (None: all are): hand over nothing of it that is not in the thread's hands."""
        self._crossing.drop(lambda batch: where is None or (batch.topic, batch.partition) == where)
        hand = self._hand
        if (
            hand is not None
            and hand.messages is not None
            and where in (None, (hand.batch.topic, hand.batch.partition))
            and (left := length_hint(hand.messages))
        ):
            del hand.batch.messages[-left:]  # which ends the iterator over them
        if failed:
            self._begin()
