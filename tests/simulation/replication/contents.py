"""The bytes of a log on the disk of a broker in memory."""

from __future__ import annotations

from itertools import pairwise

from logd.log.partition import PartitionLog
from logd.testing.memory.broker import MemoryBroker


def bytes_of(broker: MemoryBroker, log: PartitionLog, start: int, end: int) -> bytes:
    """Return a range of a log from the broker's files."""
    found = b""
    starts = [*log.segment_list.starts, end]
    for first, following in pairwise(starts):
        begin, stop = max(start, first), min(end, max(following, first))
        if begin < stop:
            file = broker.files.open_for_reading(f"{log.folder}/{first:020d}.log")
            found += file.read_at(begin - first, stop - begin)
            file.close()
    return found
