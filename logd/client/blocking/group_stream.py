"""A stream of a consumer group for code that blocks: what counts as handled is what the other thread has done."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any

from attrs import frozen

from logd.client.blocking.reactor_thread import call_there
from logd.client.blocking.stream import BATCHES_BETWEEN, BlockingStream, Pump
from logd.client.blocking.thread_queue import ThreadQueue
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.group_stream import GroupStream
from logd.protocol.message import Message
from logd.topic import TopicPartition


@frozen(eq=False)
class InHand:
    """The batch that the application has; the iterator over it, if that goes message by message; its first length."""

    batch: MessageBatch
    messages: Iterator[Message] | None
    length: int


class GroupPump(Pump):
    """Pump for a stream of a group: what is in the thread's hands counts, and what is taken away is dropped.

    The thread goes on meanwhile: of what it does then a message may come twice.
    """

    def __init__(self, stream: GroupStream, thread_queue: ThreadQueue[MessageBatch]) -> None:
        super().__init__(stream, thread_queue)
        self.handled = stream.group_state.handled
        self.hand: InHand | None = None
        #: Whether asking for the next message counts.
        self.taken = stream.cross(self._telling, self._taken_away)

    def _telling(self) -> None:
        """Positions are asked for: count what the thread has handled of the batch that it is in."""
        hand = self.hand
        if self.taken and hand is not None and hand.messages is not None:
            delivered = len(hand.batch.messages) - length_hint(hand.messages)
            if delivered > 1:
                self.handled(hand.batch.messages[delivered - 2])

    def _taken_away(self, where: TopicPartition | None, failed: bool) -> None:
        """A partition is another's (None: all are): hand over nothing of it that is not in the thread's hands."""
        self.thread_queue.drop(lambda batch: where is None or (batch.topic, batch.partition) == where)
        hand = self.hand
        if (
            hand is not None
            and hand.messages is not None
            and where in (None, (hand.batch.topic, hand.batch.partition))
            and (left := length_hint(hand.messages))
        ):
            del hand.batch.messages[-left:]  # which ends the iterator over them
        if failed:
            self.begin()


class BlockingGroupStream(BlockingStream):
    """``GroupStream`` for one thread: what counts as handled is what that thread has asked beyond.

    What lies between the threads does not, and is dropped when its partition is taken away.
    """

    def __init__(self, reactor: Any, stream: GroupStream) -> None:
        self._group_pump = pump = GroupPump(stream, ThreadQueue(reactor, BATCHES_BETWEEN))
        super().__init__(reactor, stream, pump)

    def handled(self, item: Message | MessageBatch) -> None:
        """See GroupStream.handled."""
        call_there(self._reactor, lambda: self._group_pump.handled(item))

    def _advance(self, timeout: float | None) -> bool:
        advanced = super()._advance(timeout)
        if advanced and self._batch is not None:
            self._group_pump.hand = InHand(self._batch, self._messages, len(self._batch.messages))
        return advanced

    def _next_batch(self, timeout: float | None) -> MessageBatch | None:
        pump = self._group_pump
        hand, pump.hand = pump.hand, None
        if hand is not None and pump.taken:
            item: MessageBatch | Message | None = hand.batch
            if hand.messages is not None and len(hand.batch.messages) < hand.length:  # the rest of it was taken away
                item = hand.batch.messages[-1] if hand.batch.messages else None
            if item is not None:
                self._reactor.callFromThread(pump.handled, item)
        batch = super()._next_batch(timeout)
        if batch is not None:
            pump.hand = InHand(batch, None, len(batch.messages))
        return batch
