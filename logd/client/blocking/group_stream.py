"""A stream of a consumer group for code that blocks: the other thread's progress decides what counts as handled."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any

from attrs import frozen

from logd.client.blocking.reactor_thread import call_there
from logd.client.blocking.stream import BATCHES_BETWEEN, BlockingStream, Pump
from logd.client.blocking.thread_queue import ThreadQueue
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group_stream import GroupStream
from logd.errors import WrongPartition
from logd.protocol.message import Message
from logd.topic import TopicPartition


@frozen(eq=False)
class InHand:
    """The batch that the application has, its iterator if it is read message by message, and its first length."""

    batch: MessageBatch
    messages: Iterator[Message] | None
    length: int


class GroupPump(Pump):
    """A Pump for a group's stream: counts the batch in the thread's hands, and drops partitions taken away.

    The thread goes on meanwhile, so a message that it handles then may come twice.
    """

    def __init__(self, stream: GroupStream, thread_queue: ThreadQueue[MessageBatch]) -> None:
        super().__init__(stream, thread_queue)
        self.handled = stream.group_state.handled
        self.hand: InHand | None = None
        #: The batch that the thread had when its partition was taken away, and the fetch that it came from.
        self._former: tuple[MessageBatch, PartitionFetch | None] | None = None
        self._accounted_for = stream.group_state.accounted_for
        #: True: asking for the next message marks the previous one as handled.
        self.taken = stream.read_from_thread(self._before_report, self._revoked)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Seek as Pump does; the batch in hand counts no more, since its messages may come again."""
        stream = self._stream
        super().seek(partition, position, topic)
        hand = self.hand
        if stream is not None and hand is not None:
            where = stream.topic if topic is None else topic, partition
            if where == (hand.batch.topic, hand.batch.partition):
                self.hand = None

    def give_up(self, message: Message) -> bool:
        """Let reading go on at a message of the batch in hand that is not handled; return whether it does so here.

        It does not where the partition was taken away, even if it has come back since.
        """
        self._before_report()  # the messages before it are handled
        hand, self.hand = self.hand, None  # else asking for the next message would count this one
        if hand is not None and self.is_back(hand):
            return False
        try:
            self.seek(message.partition, message.id, message.topic)
        except WrongPartition:
            return False
        return True

    def count(self, hand: InHand, item: Message | MessageBatch) -> None:
        """Mark an item of a batch as handled, unless its partition has come back since."""
        if not self.is_back(hand):
            self.handled(item)

    def is_back(self, hand: InHand) -> bool:
        """Return whether a batch's partition was taken away and has come back since, at any position or made again."""
        batch = hand.batch
        former, fetch = self._former or (None, None)
        return former is batch and self._accounted_for(batch.topic, batch.partition) is not fetch

    def name(self, hand: InHand | None, item: Message | MessageBatch) -> None:
        """Mark an item that the application names: one of the batch in hand, if that is of the same partition."""
        if hand is not None and (item.topic, item.partition) == (hand.batch.topic, hand.batch.partition):
            self.count(hand, item)
        else:
            self.handled(item)

    def _before_report(self) -> None:
        """Mark what the thread has handled of its current batch, before positions are reported."""
        hand = self.hand
        if self.taken and hand is not None and hand.messages is not None:
            delivered = len(hand.batch.messages) - length_hint(hand.messages)
            if delivered > 1:
                self.count(hand, hand.batch.messages[delivered - 2])

    def _revoked(self, where: TopicPartition | None, failed: bool) -> None:
        """Drop queued batches of a partition that was taken away (None: of all)."""
        self.thread_queue.drop(lambda batch: where is None or (batch.topic, batch.partition) == where)
        hand = self.hand
        if hand is not None and where in (None, (hand.batch.topic, hand.batch.partition)):
            if self._former is None or self._former[0] is not hand.batch:
                self._former = hand.batch, self._accounted_for(hand.batch.topic, hand.batch.partition)
            if hand.messages is not None and (left := length_hint(hand.messages)):
                del hand.batch.messages[-left:]  # it ends the iterator over them
        if failed:
            self.begin()


class BlockingGroupStream(BlockingStream):
    """``GroupStream`` for one thread. Messages count as handled once that thread asks for the next one.

    Messages queued between the threads do not count, and are dropped when their partition is taken away.
    """

    def __init__(self, reactor: Any, stream: GroupStream) -> None:
        self._group_pump = pump = GroupPump(stream, ThreadQueue(reactor, BATCHES_BETWEEN))
        super().__init__(reactor, stream, pump)

    def handled(self, item: Message | MessageBatch) -> None:
        """Mark an item as handled; see GroupStream.handled."""
        hand = self._group_pump.hand
        call_there(self._reactor, lambda: self._group_pump.name(hand, item))

    def _put_back(self, message: Message) -> None:
        if call_there(self._reactor, lambda: self._group_pump.give_up(message)):
            self._drop_at_hand(message.topic or "", message.partition, message.id)

    def _count_handled(self, message: Message, *, last: bool) -> None:
        if last or not self._group_pump.taken:  # else asking for the next one counts
            self._reactor.callFromThread(self._group_pump.name, self._group_pump.hand, message)

    def _advance(self, timeout: float | None) -> bool:
        advanced = super()._advance(timeout)
        if advanced and self._batch is not None:
            self._group_pump.hand = InHand(self._batch, self._messages, len(self._batch.messages))
        return advanced

    def _take_begun(self) -> MessageBatch | None:
        if not length_hint(self._messages):
            return None
        return call_there(self._reactor, self._take_begun_there)  # in one step: else its rest might look handled

    def _take_begun_there(self) -> MessageBatch | None:
        pump = self._group_pump
        hand = pump.hand
        delivered = 0 if hand is None else len(hand.batch.messages) - length_hint(self._messages)
        begun = super()._take_begun()
        if begun is None or hand is None:
            return begun
        if pump.taken and delivered:
            pump.count(hand, hand.batch.messages[delivered - 1])
        pump.hand = InHand(begun, None, len(begun.messages))
        return begun

    def _next_batch(self, timeout: float | None) -> MessageBatch | None:
        pump = self._group_pump
        hand, pump.hand = pump.hand, None
        if hand is not None and pump.taken:
            item: MessageBatch | Message | None = hand.batch
            if hand.messages is not None and len(hand.batch.messages) < hand.length:  # the rest of it was taken away
                item = hand.batch.messages[-1] if hand.batch.messages else None
            if item is not None:
                self._reactor.callFromThread(pump.count, hand, item)
        batch = super()._next_batch(timeout)
        if batch is not None:
            pump.hand = InHand(batch, None, len(batch.messages))
        return batch
