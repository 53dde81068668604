"""Scans of the entries in a segment's file, in bounded memory: with checksums, or by the heads alone."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logd.interfaces import IFile
from logd.protocol import loops
from logd.protocol.checksums import CHECKSUMS
from logd.protocol.entry import MOST_HEAD_BYTES, head_at

#: Bytes read at a time: large enough that the reads cost next to nothing beside the checksums.
_BLOCK = 1 << 20
#: ``read_heads`` reads this many bytes first, and twice as many with each further read.
_FIRST_BLOCK = 4096


@define
class Scan:
    """The sound entries that a scan found. All positions are file positions."""

    #: The end of the last sound entry.
    end: int
    entries: int = 0
    #: The highest timestamp, -1 if no entry has one.
    highest_ms: int = -1
    #: The reason why the entry at ``end`` is not sound, empty if the scan reached its end.
    problem: str = ""
    #: Entry starts, one in every ``index_bytes``, each with the highest timestamp before it.
    boundaries: list[tuple[int, int]] = field(factory=list)

    def next_boundary(self, index_bytes: int) -> int:
        """Return the file position from which on the next entry becomes a boundary."""
        return self.boundaries[-1][0] + index_bytes if self.boundaries else self.end


def scan_entries(file: IFile, position: int, end: int, index_bytes: int, highest_ms: int = -1) -> Scan:
    """Check every entry in ``[position, end)`` of ``file``; stop at the first that is not sound. Raises OSError.

    ``highest_ms`` is the highest timestamp before ``position``. A gap is sound if its head is, since its body means
    nothing. Holds at most 1 MiB of the file in memory, whatever size an entry claims.
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
    """Check the entries that are complete in ``block``, which begins at ``scan.end``."""
    base = scan.end
    found = loops.scan_set(
        block,
        newest=scan.highest_ms,
        next_boundary=scan.next_boundary(index_bytes) - base,
        boundary_bytes=index_bytes,
    )
    scan.boundaries += [(base + at, newest) for at, newest in found.boundaries]
    scan.problem = found.problem
    scan.end = base + found.consumed
    scan.entries += found.entries
    scan.highest_ms = found.newest


def _scan_large(file: IFile, block: bytes, end: int, scan: Scan, index_bytes: int) -> None:
    """Check the entry at ``scan.end``, which is not complete in ``block``: it is large, or it is cut off."""
    position = scan.end
    try:
        head = head_at(block)
    except ValueError as error:
        scan.problem = str(error)
        return
    if head is None or len(block) < _BLOCK:  # the block ends where the range or the file does
        scan.problem = f"the last entry is cut off after {len(block)} bytes"
        return
    stop = position + head.size
    if stop > end:
        scan.problem = f"an entry of {head.size} bytes has only {end - position}"
        return
    checksum = CHECKSUMS[head.layout.checksum]
    at, covered = position + head.checked_from, position + head.checked_to
    found = 0
    while at < covered:
        piece = file.read_at(at, min(_BLOCK, covered - at))
        if not piece:
            break
        found = checksum(piece, found)
        at += len(piece)
    if at < covered or found != head.checksum:
        scan.problem = "checksum mismatch"
        return
    if position >= scan.next_boundary(index_bytes):
        scan.boundaries.append((position, scan.highest_ms))
    scan.highest_ms = max(scan.highest_ms, head.timestamp)
    scan.entries += 1
    scan.end = stop


def read_heads(file: IFile, position: int, end: int, upto: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield (file position, size, newest time in ms or -1) of each entry from ``position`` on, by its head alone.

    Ends at ``end`` or at the first invalid head. An entry that ``end`` cuts off is not yielded. The first reads are
    small, so that a few entries cost little. With ``upto``, only the heads of entries that begin at or before that file
    position are read. Raises OSError.
    """
    block_bytes = _FIRST_BLOCK
    while position < end:
        count = min(block_bytes, end - position)
        if upto is not None:
            count = min(count, max(upto - position, 0) + MOST_HEAD_BYTES)
        block_bytes = min(2 * block_bytes, _BLOCK)
        base = position
        for at, size, time in loops.heads_of_set(file.read_at(base, count)):
            position = base + at + size
            if position > end:
                return
            yield base + at, size, time
        if position == base:
            return
