"""A file of changes of the tree: its head, its records, and the scan of one.

::

    head    "LGDC" | int32 format = 1 | int64 base | 8 bytes of salt | uint32 crc of the 24 bytes before
    record  int32 length | uint32 crc | int64 zxid | int64 flushed | length bytes of change
            crc of: salt | the record without its crc

Named ``changes.<base, 16 hex digits>``; ``base`` is the zxid of the last change before the file, so a missing file is
noticed, and each record's zxid is one more than the previous. ``flushed`` is the zxid up to which all changes were on
the disk when the record was written. If an invalid record is followed by a valid one which says that the first was
flushed, the first was acknowledged and is damaged now; else it is a torn tail of a crash, and is cut. The salt, from
the system's random numbers, makes that safe: data written into a node cannot be made to look like a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from zlib import crc32

from attrs import define, frozen

MAGIC = b"LGDC"
FORMAT = 1
_HEAD = Struct(">4siq8s")
_CRC = Struct(">I")
HEAD_BYTES = _HEAD.size + _CRC.size
_RECORD = Struct(">iIqq")
RECORD_BYTES = _RECORD.size
_COVERED = Struct(">iqq")
SALT_BYTES = 8
#: The largest change: a request is bounded, and a multi is one change.
LARGEST_CHANGE_BYTES = 64 << 20
#: The distance behind the last zxid in which a record is looked for when the chain is broken.
_LOOK_AHEAD = 1 << 24


@frozen
class ChangeFileHead:
    """The head of one file."""

    base: int
    salt: bytes


@define
class ChangeFileScan:
    """The result of scanning a file."""

    head: ChangeFileHead | None
    #: The end of the valid part, and the zxid of the last change there.
    end: int = 0
    last: int = 0
    #: The largest zxid that a valid record, even one behind the end, says was on the disk.
    flushed: int = 0
    #: Bytes of damaged records whose changes are also in the snapshot.
    passed_over: int = 0


def encode_head(head: ChangeFileHead) -> bytes:
    """Return a file's first bytes."""
    packed = _HEAD.pack(MAGIC, FORMAT, head.base, head.salt)
    return packed + _CRC.pack(crc32(packed))


def decode_head(data: bytes) -> ChangeFileHead | None:
    """Decode a file's first bytes; None when they are no head. Raises ValueError for the head of another format."""
    if len(data) < HEAD_BYTES or crc32(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        return None
    magic, number, base, salt = _HEAD.unpack_from(data)
    if magic != MAGIC:
        return None
    if number != FORMAT:
        raise ValueError(f"format {number}; this release of logd knows format {FORMAT} only")
    return ChangeFileHead(base, salt)


def encode_record(salt: bytes, zxid: int, flushed: int, change: bytes) -> bytes:
    """Return a record."""
    return encode_records(salt, flushed, [(zxid, change)])


def encode_records(salt: bytes, flushed: int, changes: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the records of changes, each with its zxid, that are written together."""
    salted = crc32(salt)
    pieces: list[bytes] = []
    for zxid, change in changes:
        length = len(change)
        crc = crc32(change, crc32(_COVERED.pack(length, zxid, flushed), salted))
        pieces += (_RECORD.pack(length, crc, zxid, flushed), change)
    return b"".join(pieces)


def scan(data: bytes, change: Callable[[int, bytes], None], covered: int = 0) -> ChangeFileScan:
    """Read a whole file and call ``change(zxid, bytes)`` for each valid record, up to the first that is not.

    Changes up to ``covered`` are also elsewhere: damaged ones among them are skipped and counted if a valid record, at
    most one behind them, follows. Raises ValueError for a file of another format, and whatever ``change`` raises.
    """
    head = decode_head(data)
    if head is None:
        return ChangeFileScan(None)
    found = ChangeFileScan(head, HEAD_BYTES, head.base)
    while True:
        record = _record(data, found.end, head.salt, found.last)
        if record is None or record[0] != found.last + 1:
            sound = _covered(data, found, head.salt, covered)
            if sound is None:
                break
            found.passed_over += sound - found.end
            found.end = sound
            record = _record(data, sound, head.salt, found.last)
            assert record is not None
        zxid, flushed, body = record
        change(zxid, body)
        found.end += RECORD_BYTES + len(body)
        found.last = zxid
        found.flushed = max(found.flushed, flushed)
    for at in range(found.end + 1, len(data) - RECORD_BYTES + 1):
        record = _record(data, at, head.salt, found.last)
        if record is not None:
            found.flushed = max(found.flushed, record[1])
    return found


def _covered(data: bytes, found: ChangeFileScan, salt: bytes, covered: int) -> int | None:
    """Return the start of the next valid record, if only changes up to ``covered`` can lie before it."""
    if found.last >= covered:
        return None
    for at in range(found.end + 1, len(data) - RECORD_BYTES + 1):
        record = _record(data, at, salt, found.last)
        if record is not None:
            return at if record[0] <= covered + 1 else None
    return None


@frozen
class Found:
    """A valid record found anywhere in a file, after ``skipped`` bytes that are none."""

    at: int
    end: int
    skipped: int
    zxid: int
    flushed: int
    change: bytes


def find_records(data: bytes, head: ChangeFileHead) -> Iterator[Found]:
    """Yield every valid record of a file whose zxid is above the previous ones, whatever lies between them."""
    at = behind = HEAD_BYTES
    last = head.base
    while at + RECORD_BYTES <= len(data):
        record = _record(data, at, head.salt, last)
        if record is None:
            at += 1
            continue
        last, flushed, change = record
        end = at + RECORD_BYTES + len(change)
        yield Found(at, end, at - behind, last, flushed, change)
        at = behind = end


def _record(data: bytes, at: int, salt: bytes, after: int) -> tuple[int, int, bytes] | None:
    if at + RECORD_BYTES > len(data):
        return None
    length, crc, zxid, flushed = _RECORD.unpack_from(data, at)
    start = at + RECORD_BYTES
    if not 0 <= length <= min(LARGEST_CHANGE_BYTES, len(data) - start):
        return None
    if not (after < zxid <= after + _LOOK_AHEAD and 0 <= flushed < zxid):
        return None
    change = data[start : start + length]
    expected = crc32(change, crc32(_COVERED.pack(length, zxid, flushed), crc32(salt)))
    return (zxid, flushed, change) if crc == expected else None
