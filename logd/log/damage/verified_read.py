"""Reads of stored entries for another replica: whole entries from a boundary on, with checksums that match."""

from __future__ import annotations

from logd.errors import CorruptMessage, InvalidRequest, OffsetOutOfRange
from logd.log.disk.names import join, segment_name
from logd.log.index.lookup import Snapshot, find_boundary
from logd.protocol import loops
from logd.protocol.entry import LEAST_BYTES, MOST_HEAD_BYTES, size_at

#: The most bytes of one read, if no single entry is larger; and the largest entry.
MOST_BYTES = 1 << 20
LARGEST_ENTRY = 64 << 20


def read_verified(log: Snapshot, position: int, length: int) -> bytes:
    """Return whole entries from ``position`` on: as many as fit into ``length`` bytes, but at least one.

    A read ends at the end of a segment. Blocks. Raises OffsetOutOfRange outside the snapshot, InvalidRequest if no
    entry begins at ``position``, CorruptMessage if the first entry is damaged, and OSError.
    """
    if not log.start <= position < log.end:
        raise OffsetOutOfRange(f"{log.folder}: position {position} is not between {log.start} and {log.end}")
    boundary = find_boundary(log, position)
    if boundary != position:
        raise InvalidRequest(f"{log.folder}: no entry begins at {position}, but one at {boundary}")
    number = log.segments.find(position)
    start = log.segments.starts[number]
    end = min(log.segments.end_of(number, log.end), log.end)
    file = log.files.open_for_reading(join(log.folder, segment_name(start)))
    try:
        count = min(max(length, MOST_HEAD_BYTES), MOST_BYTES, end - position)
        data: bytes = file.read_at(position - start, count)
        size = size_at(data)
        if count < size <= min(LARGEST_ENTRY, end - position):
            data = file.read_at(position - start, size)
        data = data[: max(length, size, LEAST_BYTES)]
    finally:
        file.close()
    found = loops.scan_set(data)
    if not found.consumed:
        raise CorruptMessage(found.problem or "the entry is not complete", position)
    return data[: found.consumed]
