"""Walking over the entries of a segment's file in bounded memory: with their checksums, or by their heads alone.

entry    := int32 N | uint8 magic | ...                          an entry takes 4 + N bytes
magic 0  := 00 | uint32 crc | payload
magic 1  := 01 | uint8 attributes | uint32 crc | payload
magic 2  := 02 | uint32 crc | uint8 attributes | int64 timestamp | ...
gap      := 7f | uint32 crc of the four bytes of N | N - 5 bytes that mean nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from attrs import define, field

from logd.interfaces import IFile

_HEAD = Struct(">iBI")  # N, magic, crc of magics 0, 2 and 7f
_HEAD1 = Struct(">iBBI")
_HEAD2 = Struct(">iBIBq")

_GAP = 0x7F
#: The least N of each magic.
_MINIMUM = {0: 5, 1: 6, 2: 19, _GAP: 5}
_NEVER = 1 << 31
#: How much is read at a time: large enough that the reads cost nothing beside the checksums.
_BLOCK = 1 << 20
#: Where heads alone are looked at, the first read is of this many bytes, and each further one of twice as many.
_FIRST_BLOCK = 4096


@define
class Scan:
    """What a scan found. Positions are those of the file."""

    #: Where the last sound entry ends.
    end: int
    entries: int = 0
    #: The highest timestamp, -1 if no entry has one.
    highest_ms: int = -1
    #: Why the entry at ``end`` is not sound, empty when the scan came to its end.
    problem: str = ""
    #: Entry starts, one in every so many bytes, each with the highest timestamp before it.
    boundaries: list[tuple[int, int]] = field(factory=list)


class Head(NamedTuple):
    """The head of one entry: its position and size (prefix included) in the file, magic, and timestamp (-1: none)."""

    position: int
    size: int
    magic: int
    timestamp: int


def scan_entries(file: IFile, position: int, end: int, index_bytes: int, highest_ms: int = -1) -> Scan:
    """Check every entry in ``[position, end)`` of ``file``; stop at the first that is not sound. Raises OSError.

    ``highest_ms`` is the highest timestamp before ``position``. A gap is sound when its head is: the bytes in it mean
    nothing. Holds 1 MiB of the file at a time, whatever size an entry says it has.
    """
    scan = Scan(position, highest_ms=highest_ms)
    while scan.end < end and not scan.problem:
        block = file.read_at(scan.end, min(_BLOCK, end - scan.end))
        before = scan.end
        _scan_block(block, scan, index_bytes)
        if scan.end == before and not scan.problem:
            _scan_large(file, block, end, scan, index_bytes)
    return scan


def _scan_block(block: bytes, scan: Scan, index_bytes: int) -> None:
    """Check the entries that lie wholly in ``block``, which begins at ``scan.end``."""
    view = memoryview(block)
    size = len(block)
    base = scan.end
    highest = scan.highest_ms
    next_boundary = scan.boundaries[-1][0] + index_bytes if scan.boundaries else base
    entries = at = 0
    while size - at >= _HEAD.size:
        length, magic, crc = _HEAD.unpack_from(block, at)
        stop = at + 4 + length
        if length < _MINIMUM.get(magic, _NEVER):
            scan.problem = f"no entry has length {length} and magic {magic}"
            break
        if stop > size:
            break
        timestamp = -1
        if magic == 1:
            sound = crc32(view[at + 10 : stop]) == _HEAD1.unpack_from(block, at)[3]
        elif magic == _GAP:
            sound = crc32(view[at : at + 4]) == crc
        else:
            sound = crc32(view[at + 9 : stop]) == crc
            if magic == 2:
                timestamp = _HEAD2.unpack_from(block, at)[4]
        if not sound:
            scan.problem = "the checksum does not hold"
            break
        if base + at >= next_boundary:
            scan.boundaries.append((base + at, highest))
            next_boundary = base + at + index_bytes
        if timestamp > highest:
            highest = timestamp
        entries += 1
        at = stop
    scan.end = base + at
    scan.entries += entries
    scan.highest_ms = highest


def _scan_large(file: IFile, block: bytes, end: int, scan: Scan, index_bytes: int) -> None:
    """Check the entry at ``scan.end``, which does not lie wholly in ``block``: it is long, or it is cut off."""
    position = scan.end
    if len(block) < _BLOCK:  # it reaches up to the end of the range or of the file
        scan.problem = f"the last entry is cut off after {len(block)} bytes"
        return
    length, magic, crc = _HEAD.unpack_from(block)
    stop = position + 4 + length
    if stop > end:
        scan.problem = f"an entry of {4 + length} bytes has only {end - position}"
        return
    timestamp = -1
    if magic == _GAP:
        sound = crc32(block[:4]) == crc
    else:
        if magic == 1:
            crc = _HEAD1.unpack_from(block)[3]
        elif magic == 2:
            timestamp = _HEAD2.unpack_from(block)[4]
        at = position + (10 if magic == 1 else 9)
        found = 0
        while at < stop:
            piece = file.read_at(at, min(_BLOCK, stop - at))
            if not piece:
                break
            found = crc32(piece, found)
            at += len(piece)
        sound = at == stop and found == crc
    if not sound:
        scan.problem = "the checksum does not hold"
        return
    if not scan.boundaries or position >= scan.boundaries[-1][0] + index_bytes:
        scan.boundaries.append((position, scan.highest_ms))
    scan.highest_ms = max(scan.highest_ms, timestamp)
    scan.entries += 1
    scan.end = stop


def read_heads(file: IFile, position: int, end: int, upto: int | None = None) -> Iterator[Head]:
    """Yield the heads of the entries from ``position`` on, unchecked, up to ``end`` or the first that makes no sense.

    Raises OSError. An entry that ``end`` cuts off is not yielded. Little is read at first and more later, so that a
    few entries cost little; with ``upto``, no more than the heads of entries that begin at or before that position.
    """
    block_bytes = _FIRST_BLOCK
    while position < end:
        count = min(block_bytes, end - position)
        if upto is not None:
            count = min(count, max(upto - position, 0) + _HEAD2.size)
        block_bytes = min(2 * block_bytes, _BLOCK)
        block = file.read_at(position, count)
        size = len(block)
        at = 0
        while size - at >= _HEAD.size:
            length, magic, _ = _HEAD.unpack_from(block, at)
            if length < _MINIMUM.get(magic, _NEVER) or position + at + 4 + length > end:
                return
            timestamp = -1
            if magic == 2:
                if size - at < _HEAD2.size:
                    break
                timestamp = _HEAD2.unpack_from(block, at)[4]
            yield Head(position + at, 4 + length, magic, timestamp)
            at += 4 + length
        if at == 0:
            return
        position += at
