"""A stream of a consumer group for code that blocks: the other thread's progress decides what counts as handled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import length_hint
from typing import Any
from weakref import WeakKeyDictionary

from attrs import evolve, frozen

from logd.client.blocking.reactor_thread import ReactorStopped, call_there
from logd.client.blocking.stream import BATCHES_BETWEEN, BlockingStream, CarriedBatch, Pump
from logd.client.blocking.thread_queue import ThreadQueue
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group_stream import GroupStream
from logd.errors import WrongPartition
from logd.protocol.message import Message
from logd.topic import TopicPartition


@frozen(eq=False)
class InHand:
    """The batch that the application has, its partition fetch, its first length, and its iterator.

    The iterator is None where the batch was handed over as a whole.
    """

    batch: MessageBatch
    fetch: PartitionFetch | None
    length: int
    messages: Iterator[Message] | None = None

    @property
    def where(self) -> tuple[str, int]:
        """Return the batch's partition."""
        return self.batch.topic, self.batch.partition

    @property
    def left(self) -> int:
        """Return the number of messages that were not handed over yet."""
        return 0 if self.messages is None else length_hint(self.messages)

    @property
    def position(self) -> int:
        """Return the position behind the messages that were handed over."""
        left = self.left
        if not left:
            return self.batch.next_position
        delivered = len(self.batch.messages) - left
        return self.batch.messages[delivered - 1].next_position if delivered else self.batch.position


class GroupPump(Pump):
    """A Pump for a group's stream: counts the batch in the thread's hands, and drops partitions taken away.

    The thread goes on meanwhile, so a message that it handles then may come twice.
    """

    def __init__(self, stream: GroupStream, thread_queue: ThreadQueue[CarriedBatch]) -> None:
        super().__init__(stream, thread_queue)
        self.handled = stream.group_state.handled
        self.hand: InHand | None = None
        #: The position behind the batches that the thread was handed, in the fetches of its partitions.
        self._handed: WeakKeyDictionary[PartitionFetch, int] = WeakKeyDictionary()
        self._accounted_for = stream.group_state.accounted_for
        #: True: asking for the next message marks the previous one as handled.
        self.taken = stream.read_from_thread(self._before_report, self._revoked)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Seek as Pump does; what was handed over before counts no more, since it may come again."""
        stream = self._stream
        super().seek(partition, position, topic)
        if stream is not None:
            where = stream.topic if topic is None else topic, partition
            fetch = self._accounted_for(*where)
            if fetch is not None:
                self._handed.pop(fetch, None)
            if self.hand is not None and self.hand.where == where:
                self.hand = None

    def give_up(self, message: Message) -> bool:
        """Let reading go on at a message of the batch in hand that is not handled; return whether it does so here.

        It does not where the partition was taken away, even if it has come back since.
        """
        self._before_report()  # the messages before it are handled
        hand, self.hand = self.hand, None  # else asking for the next message would count this one
        if hand is not None and not self._is_current(hand):
            return False
        try:
            self.seek(message.partition, message.id, message.topic)
        except WrongPartition:
            return False
        return True

    def hand_over(self, hand: InHand) -> None:
        """Note, on the thread, what it is handed now."""
        self.hand = hand
        if hand.fetch is not None:
            self._handed[hand.fetch] = hand.batch.next_position

    def count(self, hand: InHand, item: Message | MessageBatch) -> None:
        """Mark an item of a batch as handled, unless its partition was taken away and has come back since."""
        if self._is_current(hand):
            self.handled(item)

    def mark(self, item: Message | MessageBatch) -> None:
        """Mark an item that the application names, if as much was handed over since its partition came last.

        Else the item was handed over before, and the partition has come back at an earlier position.
        """
        fetch = self._accounted_for(item.topic or "", item.partition)
        if fetch is not None and item.next_position <= self._position_in(fetch):
            self.handled(item)

    def _position_in(self, fetch: PartitionFetch) -> int:
        hand = self.hand
        return self._handed.get(fetch, -1) if hand is None or hand.fetch is not fetch else hand.position

    def _is_current(self, hand: InHand) -> bool:
        return hand.fetch is not None and self._accounted_for(*hand.where) is hand.fetch

    def _before_report(self) -> None:
        """Mark what the thread has handled of its current batch, before positions are reported."""
        hand = self.hand
        if self.taken and hand is not None and hand.messages is not None:
            delivered = len(hand.batch.messages) - length_hint(hand.messages)
            if delivered > 1:
                self.count(hand, hand.batch.messages[delivered - 2])

    def _revoked(self, where: TopicPartition | None, failed: bool) -> None:
        """Drop queued batches of a partition that was taken away (None: of all)."""
        self.thread_queue.drop(lambda carried: where in (None, carried.where))
        hand = self.hand
        if hand is not None and where in (None, hand.where) and (left := hand.left):
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
        call_there(self._reactor, lambda: self._group_pump.mark(item))

    def _put_back(self, message: Message) -> None:
        with suppress(ReactorStopped):  # then nothing is read any more
            if call_there(self._reactor, lambda: self._group_pump.give_up(message)):
                self._drop_at_hand(message.topic or "", message.partition, message.id)

    def _count_handled(self, message: Message, *, last: bool) -> None:
        pump = self._group_pump
        if last or not pump.taken:  # else asking for the next one counts
            hand = pump.hand
            if hand is not None and hand.where == (message.topic, message.partition):
                self._reactor.callFromThread(pump.count, hand, message)
            else:  # the function has read on itself
                self._reactor.callFromThread(pump.mark, message)

    def _advance(self, timeout: float | None) -> bool:
        advanced = super()._advance(timeout)
        hand = self._group_pump.hand
        if advanced and hand is not None:
            self._group_pump.hand = evolve(hand, messages=self._messages)
        return advanced

    def _take_begun(self) -> MessageBatch | None:
        if not length_hint(self._messages):
            return None
        pump = self._group_pump
        hand, pump.hand = pump.hand, None  # else its rest would look as if it were handled
        delivered = 0 if hand is None else len(hand.batch.messages) - length_hint(self._messages)
        begun = super()._take_begun()
        if begun is None or hand is None:
            pump.hand = hand
            return begun
        if pump.taken and delivered:
            self._reactor.callFromThread(pump.count, hand, hand.batch.messages[delivered - 1])
        pump.hand = InHand(begun, hand.fetch, len(begun.messages))
        return begun

    def _take(self, timeout: float | None) -> CarriedBatch | None:
        pump = self._group_pump
        hand, pump.hand = pump.hand, None
        if hand is not None and pump.taken:
            item: MessageBatch | Message | None = hand.batch
            if hand.messages is not None and len(hand.batch.messages) < hand.length:  # the rest of it was taken away
                item = hand.batch.messages[-1] if hand.batch.messages else None
            if item is not None:
                self._reactor.callFromThread(pump.count, hand, item)
        carried = super()._take(timeout)
        if carried is not None:
            pump.hand_over(InHand(carried.batch, carried.fetch, len(carried.batch.messages)))
        return carried
