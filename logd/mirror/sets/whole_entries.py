"""The bytes of a partition's log as message sets for another log: whole entries, checked, changed only where needed.

An entry moves as it is, with three exceptions. A gap, and the mark of a leader epoch in the log of a replicated
partition, are left out, since a producer may not send them. A batch of an idempotent producer loses its producer's id
and sequence, which belong to the log it was sent to. A batch from which messages were removed is made again from the
others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from attrs import frozen

from logd.audit.tallies import WindowTally
from logd.errors import CorruptMessage, InvalidMessage, MessageTooLarge
from logd.protocol import loops
from logd.protocol.batch import encode_batches
from logd.protocol.batch_layout import BATCH, NO_PRODUCER, batch_head, without_producer
from logd.protocol.codecs import BATCH_CODEC_NAMES
from logd.protocol.entry import (
    GAP,
    LENGTH_BYTES,
    MAGIC_AT,
    WRAPPER_HEAD_BYTES,
    codec_at,
    gap_length,
    head_at,
    is_mark_payload,
    size_by_length,
)
from logd.protocol.slices import DEFAULT_BOUNDS, Bounds, Steps, decode_in_slices

#: The largest entry that is waited for: a greater length counts as damage, as in consumers.
MOST_ENTRY_BYTES = 16 << 20
#: Bytes at the end of a piece whose entries are listed one by one. Those before are passed without a list, which takes
#: longer than the rest of the work where messages are small.
TAIL_BYTES = 4 << 10
#: Entries that are looked at one by one before others have their turn: 5 us each, but for large batches.
STEP_ENTRIES = 200


@frozen
class SourceEntries:
    """Whole entries as they are in a source's log, not checked."""

    data: bytes
    #: The position of the first one, or where it would be.
    position: int
    #: The positions that are covered, as in MovingSet.
    start: int
    end: int
    boundary: int


@frozen
class MovingSet:
    """Whole entries of a source's log, ready to be sent."""

    #: Empty if the source has nothing but gaps and marks of leader epochs there.
    data: bytes
    #: The messages in it; a wrapper counts as one.
    messages: int
    #: The newest time of its messages in ms, -1 for none.
    newest: int
    #: The positions in the source's log that it covers.
    start: int
    end: int
    gaps: int = 0
    #: The end of the last whole entry so far, at which a reader can go on; -1 if none has come. It is before ``end``
    #: where that is inside a gap.
    boundary: int = -1
    #: The counts of its messages; empty without an audit, None if they are found once it is stored.
    tallies: Sequence[WindowTally] | None = ()


class WholeEntries:
    """Puts the pieces of one partition's log together. Holds at most one entry that is not complete. No I/O."""

    def __init__(self) -> None:
        #: The position of the next piece; -1 before the first.
        self.end = -1
        self._rest = b""
        #: Bytes still to come of a gap, whose content means nothing.
        self._gap_left = 0
        #: The end of the last whole entry so far; -1 if none has come.
        self.boundary = -1

    def take(self, position: int, data: bytes | memoryview, visible_end: int = -1) -> SourceEntries:
        """Return the entries that are complete with this piece, which may be none. Copies each byte once.

        A piece at another position than the last one's end begins anew: the log was left in between. An entry that
        leads beyond ``visible_end``, -1 if it is not known, counts as damaged: readers see whole entries only. Raises
        CorruptMessage, with the position, for a length that no entry has.
        """
        if position != self.end:
            self._rest, self._gap_left, self.boundary = b"", 0, -1
        self.end = position + len(data)
        start = position - len(self._rest)
        passed = min(self._gap_left, len(data))
        self._gap_left -= passed
        if self._gap_left:
            return SourceEntries(b"", self.end, start, self.end, self.boundary)
        begin = start + passed
        message_set = self._cut(data[passed:] if passed else data)
        whole = begin + len(message_set)
        if whole > start:
            self.boundary = whole
        self._look_at_rest(whole)
        if self.end == visible_end and (self._rest or self._gap_left):
            raise CorruptMessage(f"an entry whose length leads beyond the log's end at {visible_end}", whole)
        behind = whole if self._rest else self.end
        return SourceEntries(message_set, begin, start, behind, self.boundary)

    def _cut(self, data: bytes | memoryview) -> bytes:
        """Return the bytes kept and those of ``data`` up to the end of the last whole entry, and keep the others."""
        rest = self._rest
        if not rest:
            whole = _end_of_whole(data, 0)
            self._rest = bytes(data[whole:])
            return bytes(data[:whole])
        if len(rest) < LENGTH_BYTES:  # the length itself is cut, which is rare
            self._rest = b""
            return self._cut(rest + bytes(data))
        first = size_by_length(rest) - len(rest)
        if first > len(data):
            self._rest = b"".join((rest, data))
            return b""
        whole = _end_of_whole(data, first)
        self._rest = bytes(data[whole:])
        return b"".join((rest, data[:whole]))

    def _look_at_rest(self, position: int) -> None:
        """Pass a gap that is cut off without keeping its bytes; raise CorruptMessage for a length that none has."""
        rest = self._rest
        gap = gap_length(rest)
        if gap:
            self._gap_left, self._rest = gap - len(rest), b""
        elif len(rest) >= LENGTH_BYTES:
            size = size_by_length(rest)
            may_be_gap = len(rest) <= MAGIC_AT or rest[MAGIC_AT] == GAP
            if not size or (size > MOST_ENTRY_BYTES and not (may_be_gap and len(rest) < 9)):
                raise CorruptMessage("an entry with an invalid length", position)


def _end_of_whole(data: bytes | memoryview, begin: int) -> int:
    """Return the index behind the last entry that is complete, ``begin`` if there is none behind that."""
    far = len(data) - TAIL_BYTES - begin
    near = loops.slice_end(data, begin, sys.maxsize, far) if far > 0 else begin
    if near >= len(data):  # the last entry is a large one, or a length is invalid
        near = begin
    ends = loops.ends_of_set(data, near)
    if ends and ends[-1] > len(data):
        ends.pop()
    return ends[-1] if ends else near


def ready_to_send(entries: SourceEntries, bounds: Bounds = DEFAULT_BOUNDS) -> Steps[MovingSet]:
    """Return the set in which the entries are sent, in steps: at once, unless an entry has to be changed or left out.

    Raises CorruptMessage, with the position, for an entry that is damaged, and WrapperTooLarge for a batch that has to
    be made again and would become more than ``bounds``.
    """
    data = entries.data
    if not data:
        return MovingSet(b"", 0, -1, entries.start, entries.end, boundary=entries.boundary)
    try:
        checked = loops.check_set(data, sys.maxsize >> 1, sys.maxsize >> 1)
    except (InvalidMessage, MessageTooLarge):
        return (yield from _mended(entries, bounds))
    return MovingSet(data, checked.messages, checked.newest, entries.start, entries.end, boundary=entries.boundary)


def _mended(entries: SourceEntries, bounds: Bounds) -> Steps[MovingSet]:
    """Return the set entry by entry, without gaps and marks, with batches as producers may send them."""
    data, position = entries.data, entries.position
    pieces: list[bytes] = []
    messages = gaps = at = same_from = 0
    newest = -1
    for number, stop in enumerate(loops.ends_of_set(data), 1):
        entry = data[at:stop]
        if gap_length(entry) == len(entry):
            made = b""
            gaps += 1
        else:
            made = _as_sent(entry, position + at)
            if made and made[MAGIC_AT] == BATCH and _is_incomplete(made):
                made = yield from _made_again(made, position + at, bounds)
        if made:
            checked = loops.check_set(made, sys.maxsize >> 1, sys.maxsize >> 1)
            messages += checked.messages
            newest = max(newest, checked.newest)
        if made is not entry:
            pieces += (data[same_from:at], made)
            same_from = stop
        at = stop
        if not number % STEP_ENTRIES:
            yield False
    if at != len(data):
        raise CorruptMessage("an entry with an invalid length", position + at)
    pieces.append(data[same_from:])
    return MovingSet(b"".join(pieces), messages, newest, entries.start, entries.end, gaps, entries.boundary)


def _as_sent(entry: bytes, position: int) -> bytes:
    """Return an entry as a producer may send it, nothing for a mark. Raises CorruptMessage for a wrong checksum."""
    try:
        head = head_at(entry)
    except ValueError as error:
        raise CorruptMessage(str(error), position) from error
    if head is None or not head.layout.holds(entry, 0, len(entry)):
        raise CorruptMessage("checksum mismatch", position)
    if codec_at(entry) and is_mark_payload(entry[WRAPPER_HEAD_BYTES:]):
        return b""
    if head.magic == BATCH:
        fields = batch_head(entry)
        if (fields.producer_id, fields.producer_epoch, fields.base_sequence) != NO_PRODUCER:
            entry = without_producer(entry)
        if _is_incomplete(entry):
            return entry
    try:
        loops.check_set(entry, sys.maxsize >> 1, sys.maxsize >> 1)
    except (InvalidMessage, MessageTooLarge) as error:
        raise CorruptMessage(str(error), position) from error
    return entry


def _is_incomplete(batch: bytes) -> bool:
    """Return whether messages were removed from a batch."""
    fields = batch_head(batch)
    return fields.messages != fields.last_delta + 1 or len(batch) != max(fields.records_end, fields.messages)


def _made_again(batch: bytes, position: int, bounds: Bounds) -> Steps[bytes]:
    """Return a batch, or several, of the messages that are left in a batch."""
    codec = BATCH_CODEC_NAMES[batch_head(batch).codec]
    made: list[bytes] = []
    yield True
    for decoded in decode_in_slices(batch, position, bounds=bounds):
        if decoded.error is not None:
            raise decoded.error
        made.append(encode_batches(decoded.messages, codec))
        yield True
    return b"".join(made)
