"""A batch: messages of one partition that travel as one message set, and the sends that wait for them."""

from __future__ import annotations

import math
from bisect import bisect
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

from twisted.internet.defer import Deferred

from logd.audit.tallies import WindowTally
from logd.client.producer.formats import Format, Record, entries_codec, size_of
from logd.client.producer.pending_send import PendingSend, Sent
from logd.client.producer.unfinished import Unfinished
from logd.errors import MessageTooLarge
from logd.protocol import loops
from logd.protocol.message import Message

#: Memory held for a message beside its bytes: the head of its object and its place in a list.
RECORD_MEMORY = 48
#: Memory held for a send beside its messages: its Deferred and its records (measured: 0.9 KB in CPython 3.11 for one
#: of several messages). It is counted, or a producer of single messages would take five times the memory that its
#: settings allow.
SET_BYTES = 900


class Share(NamedTuple):
    """The messages of one send of several messages, or of one that had to wait, within a batch."""

    send: PendingSend
    #: The number of its first message in the batch, and the number of its messages.
    first: int
    messages: int
    #: The bytes before it, and its own, as the format counts them.
    start: int
    size: int
    #: The messages of a set that came encoded, whose bytes stand for one message then.
    encoded_messages: int = 0


class ProducerBatch:
    """A batch, filled until it is encoded: every attempt then sends the same bytes.

    Messages that belong to no send were published: their failures are reported to ``unfinished``.
    """

    __slots__ = (
        *("_count", "_data", "_ends", "_tallies", "bytes", "codec", "deadline", "encoded", "form", "left", "partition"),
        *("records", "shares", "singles", "topic", "unfinished"),
    )

    def __init__(
        self, topic: str, partition: int, form: Format, codec: str, unfinished: Unfinished, deadline: float
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.form = form
        self.codec = codec
        self.unfinished = unfinished
        #: The earliest deadline of the batch's messages (clock's seconds).
        self.deadline = deadline
        #: Bytes as the format counts them.
        self.bytes = form.head_bytes
        #: True once the batch was handed to a connection.
        self.left = False
        #: True for sets that came encoded: ``records`` are then their bytes.
        self.encoded = False
        #: The messages until they are encoded; empty afterwards.
        self.records: list[Record] = []
        self.shares: list[Share] = []
        #: The sends of one message each, the most common ones, by the number of their message in the batch. No object
        #: is made for each but its Deferred, since each live object costs the garbage collector.
        self.singles: dict[int, Deferred[Sent]] = {}
        #: The end of each message, in bytes from the batch's start, where a place does not follow from the number.
        self._ends: list[int] = []
        self._count = 0
        self._data: bytes | None = None
        #: The audit's counts of the batch, from its encoding until it is settled.
        self._tallies: Sequence[WindowTally] = ()

    @property
    def messages(self) -> int:
        """Return the number of messages."""
        return self._count or len(self.records)

    @property
    def given(self) -> bool:
        """Return whether it holds sets of ``send_set``, which have no deadline and are sent until they are taken."""
        return self.deadline == math.inf

    @property
    def held(self) -> int:
        """Return the bytes of memory that the batch is counted with."""
        return self.bytes - self.form.head_bytes + RECORD_MEMORY * self.messages + SET_BYTES * self._sends

    @property
    def _sends(self) -> int:
        return len(self.shares) + len(self.singles)

    def add(self, records: Sequence[Record], size: int, send: PendingSend, encoded_messages: int = 0) -> None:
        """Append messages of a send, of ``size`` bytes as the format counts them; ``encoded_messages``: see Share."""
        self.shares.append(Share(send, len(self.records), len(records), self.bytes, size, encoded_messages))
        self.records += records
        self.bytes += size
        if send.deadline < self.deadline:
            self.deadline = send.deadline

    def add_encoded(self, data: bytes, messages: int, send: PendingSend) -> None:
        """Append a set that came encoded."""
        self.encoded = True
        self.add((data,), len(data), send, messages)
        self._count += messages

    def add_set(self, message_set: bytes, send: PendingSend) -> None:
        """Append a set of ``send_set``; it counts as one message."""
        self.deadline = send.deadline  # there is none, and the batch holds such sets alone
        self.add_encoded(message_set, 1, send)

    def remove(self, sends: Collection[PendingSend | Deferred[Sent]]) -> tuple[int, list[PendingSend]]:
        """Take out the messages of cancelled sends, unless the batch has left.

        Return the number of those of one message each, and the others, each as often as it had a part in the batch.
        """
        if self.left:
            return 0, []
        found = [share for share in self.shares if share.send in sends]
        numbers = [number for number, each in self.singles.items() if each in sends]
        gone = [(share.first, share.messages, share.size) for share in found]
        gone += [(number, 1, self._size(number)) for number in numbers]
        if not gone:
            return 0, []
        gone.sort()
        firsts = [first for first, _, _ in gone]
        # The messages and bytes that are taken out before each of these.
        fewer = [0, *accumulate(messages for _, messages, _ in gone)]
        less = [0, *accumulate(size for _, _, size in gone)]
        records: list[Record] = []
        begin = 0
        for first, messages, _ in gone:
            records += self.records[begin:first]
            begin = first + messages
        self.records = records + self.records[begin:]
        self.bytes -= less[-1]
        self._count -= sum(share.encoded_messages for share in found)
        shares, self.shares = self.shares, []
        for share in shares:
            if share.send not in sends:
                at = bisect(firsts, share.first)
                self.shares.append(share._replace(first=share.first - fewer[at], start=share.start - less[at]))
        left = set(self.singles).difference(numbers) if numbers else self.singles
        self.singles = {
            number - fewer[bisect(firsts, number)]: each for number, each in self.singles.items() if number in left
        }
        return len(numbers), [share.send for share in found]

    def encode(self) -> bytes:
        """Return the message set, without compression where that gains nothing."""
        data = self._data
        if data is None:
            self.left = True
            records = self.records
            if self.encoded:
                data = b"".join(records)  # type: ignore[arg-type]  # the sets as they are
            else:
                self._count = len(records)
                data, self.codec = self.form.encode(records, self.codec)
                if self.singles and not self.form.by_number and self.codec == "none":
                    self._ends = loops.ends_of_set(data)
                self.records = []
            audit = self.unfinished.audit
            if audit is not None:
                self._tallies = audit.left(self.topic, () if self.encoded else records, data)
            self._data = data
        return data

    def _size(self, number: int) -> int:
        """Return the bytes of a message that is not encoded yet, as the format counts them."""
        return size_of(self.records[number], self.form)

    def decoded(self) -> list[Message]:
        """Return the messages of an encoded batch."""
        return loops.decode_set(self.encode(), max_decompressed=1 << 30).messages

    def divide(self) -> tuple[ProducerBatch, ProducerBatch] | None:
        """Return two batches, each half of a refused one; None for a single message or for sets that came compressed.

        ``unfinished`` knows the halves in the place of this batch afterwards.
        """
        if self.messages < 2 or self.encoded:
            return None
        messages = self.decoded()
        self._not_stored(None)
        middle = len(messages) // 2
        form = self.form
        halves = self._part(messages, 0, middle, form), self._part(messages, middle, len(messages), form)
        for share in self.shares:
            if share.first < middle < share.first + share.messages:
                share.send.divide()
        self.unfinished.replace(self, halves)
        return halves

    def as_entries(self, form: Format) -> ProducerBatch:
        """Return a batch of the same messages in the format of entries, for one that the broker does not take.

        ``unfinished`` knows the new batch in the place of this one afterwards.
        """
        if self.encoded:
            batch = self._encoded_as_entries(form)
        else:
            records = self.records if self._data is None else self.decoded()
            batch = self._part(records, 0, len(records), form)
            batch.codec = entries_codec(self.codec)
        self._not_stored(None)
        self.unfinished.replace(self, (batch,))
        return batch

    def _encoded_as_entries(self, form: Format) -> ProducerBatch:
        batch = ProducerBatch(self.topic, self.partition, form, "none", self.unfinished, self.deadline)
        batch.encoded = True
        batch._count = self._count
        for share in self.shares:  # one for each set
            messages = loops.decode_set(self.records[share.first], max_decompressed=1 << 30).messages  # type: ignore[arg-type]
            data, _ = form.encode(messages, "gzip")  # the one compression of all readers and releases
            batch.shares.append(Share(share.send, share.first, 1, batch.bytes, len(data), share.encoded_messages))
            batch.records.append(data)
            batch.bytes += len(data)
        return batch

    def _part(self, messages: Sequence[Record], begin: int, end: int, form: Format) -> ProducerBatch:
        part = ProducerBatch(self.topic, self.partition, form, self.codec, self.unfinished, self.deadline)
        starts = [part.bytes]
        for message in messages[begin:end]:
            starts.append(starts[-1] + size_of(message, form))
        part.records = list(messages[begin:end])
        part.bytes = starts[-1]
        for share in self.shares:
            first, last = max(share.first, begin) - begin, min(share.first + share.messages, end) - begin
            if first < last:
                size = starts[last] - starts[first]
                part.shares.append(Share(share.send, first, last - first, starts[first], size))
        part.singles = {number - begin: each for number, each in self.singles.items() if begin <= number < end}
        return part

    def left_out(self, error: MessageTooLarge) -> bool:
        """Report a single message as left out; return False for a batch of more than one message."""
        if self.messages != 1:
            return False
        self._not_stored(error)
        if self._sends:
            message = self.decoded()[0]
            size = len(message.key or b"") + len(message.payload or b"")
            sent = Sent(self.topic, self.partition, skipped=1, skipped_bytes=size)
            for share in self.shares:
                share.send.part_sent(sent)
            for deferred in self.singles.values():
                if not deferred.called:
                    deferred.callback(sent)
        else:
            self.unfinished.left_out(self.topic, error)
        self._end()
        return True

    def succeeded(self, partition: int, first_id: int, next_position: int) -> None:
        """Tell each send its place: the batch is stored in ``partition`` from ``first_id`` to ``next_position``."""
        if self._tallies and self.unfinished.audit is not None:
            self.unfinished.audit.stored(self.topic, self._tallies, partition, first_id, next_position)
        by_number = self.form.by_number and not self.encoded
        if self._sends:
            if first_id < 0 or (self.codec != "none" and not by_number):
                self._told(partition, lambda _: (first_id, next_position), lambda _: (first_id, next_position))
            elif by_number:
                # Message j of n ends at the end - n + j + 1, and all but the first begin where the one before ends.
                base = next_position - self.messages

                def place(first: int, messages: int) -> tuple[int, int]:
                    return base + first if first else first_id, base + first + messages

                self._told(partition, lambda number: place(number, 1), lambda share: place(share.first, share.messages))
            elif not self.shares:
                self._told_ends(partition, first_id)
            else:
                ends = self._ends
                base = first_id - self.form.head_bytes
                self._told(
                    partition,
                    lambda number: (first_id + ends[number - 1] if number else first_id, first_id + ends[number]),
                    lambda share: (base + share.start, base + share.start + share.size),
                )
        self._end()

    def _told(
        self, partition: int, of_single: Callable[[int], tuple[int, int]], of_share: Callable[[Share], tuple[int, int]]
    ) -> None:
        """Fire the sends, in order, with the places that the functions return."""
        singles = deque(self.singles.items())
        for share in self.shares:
            while singles and singles[0][0] < share.first:
                self._told_single(partition, of_single, *singles.popleft())
            share.send.part_sent(Sent(self.topic, partition, *of_share(share)))
        for number, deferred in singles:
            self._told_single(partition, of_single, number, deferred)

    def _told_ends(self, partition: int, first_id: int) -> None:
        """Fire the sends of one message each, in order, with the places of their entries: the most common case.

        In one loop without a call for a place, which takes a tenth of a send's time.
        """
        topic, ends = self.topic, self._ends
        new = tuple.__new__
        for number, deferred in self.singles.items():
            if not deferred.called:  # else it was cancelled after the batch had left
                begin = first_id + ends[number - 1] if number else first_id
                deferred.callback(new(Sent, (topic, partition, begin, first_id + ends[number], (), 0, 0)))

    def _told_single(
        self, partition: int, of_single: Callable[[int], tuple[int, int]], number: int, deferred: Deferred[Sent]
    ) -> None:
        if not deferred.called:
            deferred.callback(Sent(self.topic, partition, *of_single(number)))

    def fail(self, error: Exception) -> None:
        """Tell each send that the batch will not be delivered. Has no effect once the batch has ended."""
        if self not in self.unfinished.items:  # the producer was closed while it was in flight
            return
        self._not_stored(error)
        published = self.messages - len(self.singles) - sum(share.messages for share in self.shares)
        for deferred in self.singles.values():
            if not deferred.called:
                deferred.errback(error)
        for share in self.shares:
            share.send.part_failed(error)
        if published > 0 and not self.encoded:
            self.unfinished.failed(self.topic, published, error)
        self._end()

    def _end(self) -> None:
        if self.singles:
            self.unfinished.sends_ended(len(self.singles))
        self.unfinished.end(self)

    def _not_stored(self, error: Exception | None) -> None:
        """Tell the audit that the batch is given up with an error, or sent in another form without one."""
        tallies, self._tallies = self._tallies, ()
        if tallies and self.unfinished.audit is not None:
            self.unfinished.audit.not_stored(self.topic, tallies, error)
