"""Entries of a log on their way to a client of Kafka: batches as they are, all others as batches with sparse offsets.

The batches of one answer tile the positions from its beginning on: what lies behind a message and before the next one
(gaps, entries that are left out) belongs to the batch of the first, and what lies before the first message to that
message's batch. A client that has read a batch asks for the position behind it next.

Stored batches need not pass through memory: as StoredRun and LargeBatch they are only named here, and read when they
are sent. Clients of the versions before record batches get message sets of Kafka's magic 0 or 1, made of everything.
"""

from __future__ import annotations

import sys

from attrs import define, field

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH, BATCH_HEAD_BYTES, batch_head, check_batch_head
from logd.protocol.entry import GAP, LAYOUTS, MAGIC_AT, codec_at, gap_length, size_at, size_by_length
from logd.protocol.kafka.answer_bounds import AnswerBounds, Item, LargeBatch, StoredRun
from logd.protocol.kafka.made_batches import encode_messages, encode_old_messages
from logd.protocol.kafka.wire_batches import KAFKA_MAGIC, base_offset_of, encode_wire_batch, wire_size
from logd.protocol.message import Message

#: Entries of at least this size are sent by a sendfile of their own behind the eight bytes that differ. Below it
#: reading and patching cost less.
LARGE_BATCH_BYTES = 64 << 10
#: A batch says its last offset by an int32, less its first one.
MOST_DELTA = (1 << 31) - 1
#: The most messages of one batch that is made here, and about the most bytes of the entries that it is made of.
MOST_MESSAGES = 10_000
MADE_BATCH_BYTES = 64 << 10
#: No batch is made for fewer bytes than these where the room ends, unless it is the first.
LEAST_MADE_BYTES = 1 << 10
#: Larger wrappers, and batches that have to be opened, are left to a thread: they may become a thousand times larger.
INLINE_WRAPPER_BYTES = 2 << 10
#: So are those that become larger than this, whatever their own size: 1 KiB of zstd can become 10 MiB.
INLINE_OPENED_BYTES = 64 << 10
#: The most wrappers that are left out of one answer. Opening one may take 50 ms, and clients do not wait for minutes.
MOST_LEFT_OUT = 50
_BASE_OFFSET_BYTES = 8
_BATCH_LAYOUT = LAYOUTS[BATCH]


@define
class FetchedEntries:
    """Converts entries; see the module. ``next_position`` is where the client's fetch begins, and moves on."""

    #: The position behind the last batch, and behind what was left out after it.
    next_position: int
    bounds: AnswerBounds = field(factory=AnswerBounds)
    #: The batches, in pieces.
    pieces: list[Item] = field(factory=list, init=False)
    #: Bytes of the pieces, and those of them that were made here.
    size: int = field(default=0, init=False)
    made: int = field(default=0, init=False)
    #: The size of the entry that the end of the data cuts off; 0 if there is none, or its size is not known.
    needed: int = field(default=0, init=False)
    #: True when no more fits, and when the next entry has to be left to a thread.
    full: bool = field(default=False, init=False)
    is_heavy: bool = field(default=False, init=False)
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
    _verify: bool = field(default=False, init=False)

    @property
    def position(self) -> int:
        """The position of the entry at hand: where the next data begin. The client may have a part of it."""
        return self._position + self._at

    def __attrs_post_init__(self) -> None:
        self._position = self.next_position

    def convert(self, data: bytes, position: int, verify: bool = False) -> None:
        """Convert all entries that ``data``, which begin with an entry at ``position``, have whole.

        May be called again, with what comes behind: what lies between counts as a hole. Ends before a damaged entry.
        ``verify``: the data were just read from the disk, so that the checksums of batches are verified too.
        """
        self._data, self._position, self._at, self._verify = data, position, 0, verify
        self.needed, self.damaged_at, self.is_heavy = 0, -1, False
        end = len(data)
        while self._at < end and self.damaged_at < 0 and not (self.full or self.is_heavy):
            size = size_at(data, self._at)
            if not size and end - self._at > MAGIC_AT:
                self.damaged_at = self.position
            elif size and data[self._at + MAGIC_AT] == BATCH and self.bounds.magic == KAFKA_MAGIC:
                if not self._take_stored(size):
                    break
            elif size and gap_length(data, self._at) == size:
                self._at += size  # perhaps far behind the data: nothing else of a gap is read
            elif not size or end - self._at < size:
                self.needed = size or size_by_length(data, self._at)
                break
            else:
                self._take(size)
        self._make_batch()

    def finish(self) -> None:
        """Move the client over a hole behind all that is sent, by a batch without messages."""
        is_hole = self.next_position < self.position and not (self.full and self.pieces)
        if is_hole and self.bounds.magic == KAFKA_MAGIC:
            self._add(encode_wire_batch(b"", 0, self.next_position, self._delta(self.position), -1, -1))

    def skip_to(self, position: int) -> None:
        """Go on behind what is damaged; ``convert`` is called with the data from there on."""
        self._data, self._position, self._at, self.damaged_at = b"", position, 0, -1

    def _delta(self, end: int) -> int:
        """Return the last delta of a batch from ``next_position`` up to ``end``, or as far as one batch reaches."""
        delta = min(end - 1 - self.next_position, MOST_DELTA)
        self.next_position += delta + 1
        return delta

    @property
    def _must_send(self) -> bool:
        return self.bounds.first and not self.pieces

    def _take(self, size: int) -> None:
        data, at = self._data, self._at
        magic = data[at + MAGIC_AT]
        if magic == GAP:
            self.damaged_at = self.position  # a sound one was passed
        else:
            self._take_messages(size)

    def _take_stored(self, size: int) -> bool:
        """Name the batches from the entry at hand on, without copies. Return whether the next entry is at hand."""
        data, at = self._data, self._at
        left = len(data) - at
        if left < BATCH_HEAD_BYTES:
            self.needed = size
            return False
        if size >= LARGE_BATCH_BYTES:
            return self._take_large(size, left)
        self._make_batch()
        room = self.bounds.room - self.size
        run = loops.find_batches(
            data, at, most_bytes=room, largest=LARGE_BATCH_BYTES - 1, codecs=self.bounds.codecs, verify=self._verify
        )
        if run.end > at:
            self._send_run(run.end - at, run.wire_bytes)
            self._at = run.consumed
            return True
        if left < size:
            self.needed = size
            return False
        if not self._is_sound(size):
            return True
        if not self._may_send(at):
            self._take_messages(size)
        elif self._must_send:
            self._send_run(size, wire_size(data, at))
        else:
            self.full = True
        return True

    def _send_run(self, size: int, wire_bytes: int) -> None:
        """Send the run of ``size`` bytes at hand, and pass it."""
        at, position = self._at, self.position
        if wire_bytes <= self.bounds.direct_room:
            self.bounds.direct_room -= wire_bytes
            self._add(loops.wire_of_run(self._data[at : at + size], position))
        else:
            self._add_stored(StoredRun(position, size, wire_bytes), wire_bytes)
        self._at = at + size
        self.next_position = self.position

    def _take_large(self, size: int, left: int) -> bool:
        data, at, position = self._data, self._at, self.position
        if not self._is_sound(0):
            return True
        cut_off = position + size > self.bounds.range_end
        remade = not self._may_send(at)
        cold = left < size and self.bounds.is_warm is not None and not self.bounds.is_warm(position, size)
        if (left < size and (cut_off or remade or self._verify)) or cold:
            self.needed = size
            return False
        if self._verify and not self._is_sound(size):
            return True
        if remade:
            self._take_messages(size)
            return True
        self._make_batch()
        wire_bytes = wire_size(data, at)
        if self.size + wire_bytes > self.bounds.room and not self._must_send:
            self.full = True
            return True
        first = base_offset_of(data, at, position)
        large = LargeBatch(first, position + _BASE_OFFSET_BYTES, wire_bytes - _BASE_OFFSET_BYTES)
        self._add_stored(large, wire_bytes)
        self._at += size
        self.next_position = self.position
        return True

    def _is_sound(self, size: int) -> bool:
        """Check the head of the batch at hand, and with ``verify`` its checksum, if its whole size is given."""
        data, at = self._data, self._at
        try:
            check_batch_head(data, at)
        except ValueError:
            self.damaged_at = self.position
            return False
        if self._verify and size and not _BATCH_LAYOUT.holds(data, at, at + size):
            self.damaged_at = self.position
            return False
        return True

    def _may_send(self, at: int) -> bool:
        """Return whether the client may know the codec of a batch."""
        return self.bounds.codecs == loops.ALL_CODECS or bool(
            self.bounds.codecs >> batch_head(self._data, at).codec & 1
        )

    def _take_messages(self, size: int) -> None:
        """Decode one wrapper, or the entries up to the next batch, wrapper or gap, or as many as there is room for."""
        data, at = self._data, self._at
        slice_bytes = self._slice_bytes()
        if slice_bytes <= 0:
            self.full = True
            return
        stop = at + size
        several = codec_at(data, at) != 0 or data[at + MAGIC_AT] == BATCH
        inline = several and self.bounds.inline
        if inline and size > INLINE_WRAPPER_BYTES:
            self.is_heavy = True
            return
        most = self.bounds.max_decompressed
        if inline:
            most = min(most, INLINE_OPENED_BYTES)
        if not several:
            if self.bounds.magic == KAFKA_MAGIC and not self._messages and self._take_records(slice_bytes):
                return
            stop = self._plain_until(stop, slice_bytes)
        entries = data[at:stop]
        here = self.position
        opened: loops.OpenEntry | None = None
        begin = 0
        error = None
        while True:
            decoded = loops.decode_set(
                entries,
                here,
                begin=begin,
                start_at=self.bounds.start_at if several else -1,
                limit=MOST_MESSAGES,
                limit_bytes=slice_bytes if several else sys.maxsize,
                max_decompressed=most,
                # No offsets can number more messages than bytes: such a wrapper is not read to its end.
                max_decompressed_messages=min(self.bounds.max_decompressed_messages, size),
                opened=opened,
            )
            messages, opened, error, begin = decoded.messages, decoded.opened, decoded.error, decoded.consumed
            if isinstance(error, WrapperTooLarge):
                has_too_many = error.setting == "max_decompressed_messages"
                if inline and not has_too_many and most < self.bounds.max_decompressed:
                    self.is_heavy = True
                    return
                unnumbered = has_too_many and error.limit == size
                self._leave_out(here, f"it has more messages than its {size} bytes" if unnumbered else str(error))
                messages = []
            self._messages += messages
            if opened is None or error is not None:
                break
            self._make_batch(messages[-1].next_position if messages else -1)
            slice_bytes = self._slice_bytes()
            if self.full or slice_bytes <= 0:
                self.full = True
                return  # inside the entry
        if isinstance(error, CorruptMessage):
            stop = at + decoded.consumed
            self.damaged_at = self._position + stop
        self._at = stop
        self._make_batch()

    def _leave_out(self, position: int, reason: str) -> None:
        """Leave out a wrapper. Behind many of them the answer ends, and the client asks for what follows."""
        self.left_out.append((position, reason))
        if len(self.left_out) >= MOST_LEFT_OUT and self.bounds.magic == KAFKA_MAGIC:
            self.full = True  # a client of older formats could not be moved over them

    def _take_records(self, slice_bytes: int) -> bool:
        """Make a batch of the entries from the one at hand on that are messages as they are; return whether there are.

        It reaches over the gaps behind them.
        """
        data, at = self._data, self._at
        if self.position - self.next_position > MOST_DELTA >> 1:
            self.next_position = self.position  # a hole that no batch can reach over
        base = self.next_position
        made = loops.records_of_set(data, self._position, base, begin=at, until=at + slice_bytes, limit=MOST_MESSAGES)
        if not made.messages:
            return False
        self._at = made.consumed
        while gap := gap_length(data, self._at):
            self._at += gap
        delta = self._delta(self.position)
        self._add_made(encode_wire_batch(made.records, made.messages, base, delta, made.base_time, made.max_time))
        return True

    def _slice_bytes(self) -> int:
        """Return the bytes of entries that the next batch may be made of; 0 if there is no room for one."""
        if self._must_send and not self._messages:
            return max(min(MADE_BATCH_BYTES, self.bounds.room, self.bounds.made_room), 1)
        left = min(self.bounds.room - self.size, self.bounds.made_room - self.made)
        left -= (left >> 3) + 100  # the batch may be a little larger than its entries
        return 0 if left < LEAST_MADE_BYTES else min(MADE_BATCH_BYTES, left)

    def _plain_until(self, stop: int, most_bytes: int) -> int:
        """Return the index behind the plain and keyed entries that follow one which ends at ``stop``."""
        data, end = self._data, len(self._data)
        most = self._at + most_bytes
        while stop < min(end, most):
            size = size_at(data, stop)
            magic = data[stop + MAGIC_AT] if size else BATCH
            if not size or stop + size > min(end, most) or magic == BATCH:
                break
            if codec_at(data, stop) or gap_length(data, stop):
                break
            stop += size
        return stop

    def _make_batch(self, end: int = -1) -> None:
        """Make batches of the messages that have none; the last reaches to ``end``, or the entry at hand."""
        messages, self._messages = self._messages, []
        if self.bounds.magic != KAFKA_MAGIC:
            if messages:
                self._add_made(encode_old_messages(messages, self.bounds.magic))
                self.next_position = messages[-1].next_position
            return
        behind = self.position if end < 0 else end
        while messages:
            count = _consecutive(messages)
            some, messages = messages[:count], messages[count:]
            self.next_position = some[-1].next_position if messages else behind
            self._add_made(encode_messages(some, self.next_position))

    def _add_made(self, piece: bytes) -> None:
        self.made += len(piece)
        self._add(piece)

    def _add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.size += len(piece)

    def _add_stored(self, piece: StoredRun | LargeBatch, wire_bytes: int) -> None:
        self.pieces.append(piece)
        self.size += wire_bytes


def _consecutive(messages: list[Message]) -> int:
    """Return the number of the first messages whose offsets follow one another."""
    first = messages[0].next_position
    if messages[-1].next_position - first == len(messages) - 1:
        return len(messages)
    return next(count for count, each in enumerate(messages) if each.next_position != first + count)
