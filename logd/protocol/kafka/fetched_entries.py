"""Entries of a log on their way to a client of Kafka: batches as they are, all others as batches with sparse offsets.

The batches of one answer tile the positions from its beginning on: what lies behind a message and before the next one
(gaps, entries that are left out) belongs to the batch of the first, and what lies before the first message to that
message's batch. A client that has read a batch asks for the position behind it next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from struct import Struct

from attrs import define, field

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH, check_batch_head
from logd.protocol.entry import GAP, MAGIC_AT, codec_at, gap_length, size_at, size_by_length
from logd.protocol.kafka.wire_batches import base_offset_of, encode_wire_batch, wire_size
from logd.protocol.loops.batches import record_body
from logd.protocol.message import Message
from logd.protocol.varint import encode_zigzag
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: A batch says its last offset by an int32, less its first one.
MOST_DELTA = (1 << 31) - 1
#: Messages of one batch that is made here.
MOST_MESSAGES = 10_000

_BASE_OFFSET_BYTES = Struct(">q").size


@define
class FetchedEntries:
    """Converts entries; see the module. ``next_position`` is where the client's fetch begins, and moves on."""

    #: The position behind the last batch, and behind what was left out after it.
    next_position: int
    #: Bounds of the messages in one wrapper of 0.7, decompressed.
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    #: The batches, in pieces.
    pieces: list[bytes | memoryview] = field(factory=list, init=False)
    #: Bytes of the pieces.
    size: int = field(default=0, init=False)
    #: The size of the entry that the end of the data cuts off; 0 if there is none, or its size is not known.
    needed: int = field(default=0, init=False)
    #: The position of a damaged entry, which stopped the conversion; -1 without one.
    damaged_at: int = field(default=-1, init=False)
    #: The wrappers that were left out, with the reasons: no offsets can number their messages, or they grow too large.
    left_out: list[tuple[int, str]] = field(factory=list, init=False)
    #: Messages that have no batch yet.
    _messages: list[Message] = field(factory=list, init=False)
    _data: bytes = field(default=b"", init=False)
    #: The log position of the first byte of the data, and the index of the entry at hand.
    _position: int = field(default=0, init=False)
    _at: int = field(default=0, init=False)

    def convert(self, data: bytes, position: int) -> None:
        """Convert all entries that ``data``, which begin with an entry at ``position``, have whole.

        May be called again, with what comes behind: what lies between counts as a hole. Ends before a damaged entry.
        """
        self._data, self._position, self._at = data, position, 0
        self.needed, self.damaged_at = 0, -1
        end = len(data)
        while self._at < end and self.damaged_at < 0:
            size = size_at(data, self._at)
            if not size and end - self._at > MAGIC_AT:
                self.damaged_at = self._here
            elif not size or end - self._at < size:
                self.needed = size or size_by_length(data, self._at)
                break
            else:
                self._take(size)
        self._make_batch()

    def finish(self) -> None:
        """Move the client over a hole, by a batch without messages, if there is nothing else to send."""
        if not self.pieces and self.next_position < self._here:
            self._add(encode_wire_batch(b"", 0, self.next_position, self._delta(self._here), -1, -1))

    @property
    def _here(self) -> int:
        """The position of the entry at hand."""
        return self._position + self._at

    def _delta(self, end: int) -> int:
        """Return the last delta of a batch from ``next_position`` up to ``end``, or as far as one batch reaches."""
        delta = min(end - 1 - self.next_position, MOST_DELTA)
        self.next_position += delta + 1
        return delta

    def _take(self, size: int) -> None:
        data, at = self._data, self._at
        if data[at + MAGIC_AT] == GAP:
            if gap_length(data, at) == size:
                self._at += size
            else:
                self.damaged_at = self._here
        elif data[at + MAGIC_AT] == BATCH:
            self._take_batch(size)
        else:
            self._take_messages(size)

    def _take_batch(self, size: int) -> None:
        data, at = self._data, self._at
        try:
            check_batch_head(data, at)
        except ValueError:
            self.damaged_at = self._here
            return
        self._make_batch()
        self._add(base_offset_of(data, at, self._here))
        self._add(memoryview(data)[at + _BASE_OFFSET_BYTES : at + wire_size(data, at)])
        self._at += size
        self.next_position = self._here

    def _take_messages(self, size: int) -> None:
        """Decode one wrapper, or the entries up to the next batch, wrapper or gap."""
        data, at = self._data, self._at
        stop = at + size
        if codec_at(data, at) == 0:
            stop = self._plain_until(stop)
        entries = data[at:stop]
        decode = partial(
            loops.decode_set,
            limit_bytes=self.max_decompressed,
            max_decompressed=self.max_decompressed,
            max_decompressed_messages=self.max_decompressed_messages,
        )
        decoded = decode(entries, self._here)
        messages = decoded.messages
        while decoded.opened is not None and decoded.error is None:
            decoded = decode(entries, self._here, begin=decoded.consumed, opened=decoded.opened)
            messages += decoded.messages
        error = decoded.error
        if isinstance(error, WrapperTooLarge):
            self.left_out.append((self._here, str(error)))
            messages = []
        elif any(message.next_position <= message.id for message in messages):
            self.left_out.append((self._here, f"it has {len(messages)} messages in {size} bytes"))
            messages = []
        if messages and messages[-1].next_position - self.next_position > MOST_DELTA:
            self._make_batch()
            self.next_position = messages[0].id  # a hole that no batch can reach over
        self._messages += messages
        if isinstance(error, CorruptMessage):
            stop = at + decoded.consumed
            self.damaged_at = self._position + stop
        self._at = stop
        if len(self._messages) >= MOST_MESSAGES:
            self._make_batch()

    def _plain_until(self, stop: int) -> int:
        """Return the index behind the plain and keyed entries that follow one which ends at ``stop``."""
        data, end = self._data, len(self._data)
        most = self._at + (1 << 20)
        while stop < min(end, most):
            size = size_at(data, stop)
            magic = data[stop + MAGIC_AT] if size else BATCH
            if not size or stop + size > end or magic == BATCH or codec_at(data, stop) or gap_length(data, stop):
                break
            stop += size
        return stop

    def _make_batch(self) -> None:
        """Make batches of the messages that have none."""
        messages, self._messages = self._messages, []
        for number in range(0, len(messages), MOST_MESSAGES):
            some = messages[number : number + MOST_MESSAGES]
            last = number + len(some) == len(messages)
            base = self.next_position
            deltas = [message.next_position - 1 - base for message in some]
            times = [-1 if message.timestamp is None else message.timestamp for message in some]
            records = b"".join(_records(some, deltas, times))
            delta = self._delta(self._here if last else some[-1].next_position)
            self._add(encode_wire_batch(records, len(some), base, delta, times[0], max(times)))

    def _add(self, piece: bytes | memoryview) -> None:
        self.pieces.append(piece)
        self.size += len(piece)


def _records(messages: Sequence[Message], deltas: Sequence[int], times: Sequence[int]) -> Iterator[bytes]:
    """Yield the messages as records, with these offsets less the base offset, and times less the first one."""
    base_time = times[0]
    for message, delta, time in zip(messages, deltas, times, strict=True):
        body = record_body(
            message.payload, message.key, encode_zigzag(time - base_time), encode_zigzag(delta), message.headers
        )
        yield encode_zigzag(len(body))
        yield body
