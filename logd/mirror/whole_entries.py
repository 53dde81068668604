"""The bytes of a partition's log as message sets for another log: whole entries, checked, changed only where needed.

An entry moves as it is, with three exceptions. A gap is left out, since a producer may not send one. A batch of an
idempotent producer loses its producer's id and sequence, which belong to the log it was sent to. A batch from which
messages were removed is made again from the others.
"""

from __future__ import annotations

import sys

from attrs import frozen

from logd.errors import CorruptMessage, InvalidMessage, MessageTooLarge
from logd.protocol import loops
from logd.protocol.batch import encode_batches
from logd.protocol.batch_layout import BATCH, NO_PRODUCER, batch_head, without_producer
from logd.protocol.codecs import BATCH_CODEC_NAMES
from logd.protocol.entry import GAP, LENGTH_BYTES, MAGIC_AT, gap_length, head_at, size_by_length

#: The largest entry that is waited for: a greater length counts as damage, as in consumers.
MOST_ENTRY_BYTES = 16 << 20
#: Bytes at the end of a piece whose entries are looked at one by one; those before are passed without a list of them,
#: which takes half of the time.
TAIL_BYTES = 64 << 10


@frozen
class MovingSet:
    """Whole entries of a source's log, ready to be sent."""

    #: Empty if the source has nothing but gaps there.
    data: bytes
    #: The messages in it; a wrapper counts as one.
    messages: int
    #: The newest time of its messages in ms, -1 for none.
    newest: int
    #: The positions in the source's log that it covers.
    start: int
    end: int
    gaps: int = 0


class WholeEntries:
    """Puts the pieces of one partition's log together. Holds at most one entry that is not complete. No I/O."""

    def __init__(self) -> None:
        #: The position of the next piece; -1 before the first.
        self.end = -1
        self._rest = b""
        #: Bytes still to come of a gap, whose content means nothing.
        self._gap_left = 0

    def take(self, position: int, data: bytes) -> MovingSet:
        """Return the entries that are complete with this piece, which may be none.

        A piece at another position than the last one's end begins anew: the log was left in between. Raises
        CorruptMessage, with the position, for an entry that is damaged.
        """
        if position != self.end:
            self._rest, self._gap_left = b"", 0
        self.end = position + len(data)
        start = position - len(self._rest)
        passed = min(self._gap_left, len(data))
        self._gap_left -= passed
        if self._gap_left:
            return MovingSet(b"", 0, -1, start, self.end)
        data = self._rest + data[passed:]
        begin = start + passed
        whole = _end_of_whole(data)
        self._rest = data[whole:]
        self._look_at_rest(begin + whole)
        behind = begin + whole if self._rest else self.end
        return _ready(data[:whole], begin, start, behind)

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


def _end_of_whole(data: bytes) -> int:
    """Return the index behind the last entry that is complete."""
    near = max(0, len(data) - TAIL_BYTES)
    begin = loops.slice_end(data, 0, sys.maxsize, near) if near else 0
    if begin >= len(data):  # the last entry is a large one, or a length is invalid
        begin = 0
    ends = loops.ends_of_set(data, begin)
    if ends and ends[-1] > len(data):
        ends.pop()
    return ends[-1] if ends else begin


def _ready(data: bytes, position: int, start: int, end: int) -> MovingSet:
    """Return the set of whole entries, whose first is at ``position``."""
    if not data:
        return MovingSet(b"", 0, -1, start, end)
    try:
        checked = loops.check_set(data, sys.maxsize >> 1, sys.maxsize >> 1)
    except (InvalidMessage, MessageTooLarge):
        return _mended(data, position, start, end)
    return MovingSet(data, checked.messages, checked.newest, start, end)


def _mended(data: bytes, position: int, start: int, end: int) -> MovingSet:
    """Return the set entry by entry, without gaps, with batches as producers may send them."""
    pieces: list[bytes] = []
    messages = gaps = at = 0
    newest = -1
    for stop in loops.ends_of_set(data):
        entry = data[at:stop]
        if gap_length(entry) == len(entry):
            gaps += 1
        else:
            entry = _as_sent(entry, position + at)
            checked = loops.check_set(entry, sys.maxsize >> 1, sys.maxsize >> 1)
            messages += checked.messages
            newest = max(newest, checked.newest)
            pieces.append(entry)
        at = stop
    if at != len(data):
        raise CorruptMessage("an entry with an invalid length", position + at)
    return MovingSet(b"".join(pieces), messages, newest, start, end, gaps)


def _as_sent(entry: bytes, position: int) -> bytes:
    """Return an entry as a producer may send it. Raises CorruptMessage if its checksum does not match."""
    try:
        head = head_at(entry)
    except ValueError as error:
        raise CorruptMessage(str(error), position) from error
    if head is None or not head.layout.holds(entry, 0, len(entry)):
        raise CorruptMessage("checksum mismatch", position)
    if head.magic == BATCH:
        fields = batch_head(entry)
        if (fields.producer_id, fields.producer_epoch, fields.base_sequence) != NO_PRODUCER:
            entry = without_producer(entry)
        if fields.messages != fields.last_delta + 1 or len(entry) != max(fields.records_end, fields.messages):
            decoded = loops.decode_set(entry, position)
            if decoded.error is not None:
                raise CorruptMessage(str(decoded.error), position)
            return encode_batches(decoded.messages, BATCH_CODEC_NAMES[fields.codec])
    try:
        loops.check_set(entry, sys.maxsize >> 1, sys.maxsize >> 1)
    except (InvalidMessage, MessageTooLarge) as error:
        raise CorruptMessage(str(error), position) from error
    return entry
