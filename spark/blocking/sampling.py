"""Estimates the size of messages by reading some: ids are positions in bytes, and messages are not counted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from attrs import evolve

from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import DataLost, RangeReader, ReadSettings

#: The number of partitions sampled, those with most to read, and about the bytes read of each.
SAMPLED_PARTITIONS = 4
SAMPLED_BYTES = 64 << 10


def average_bytes(cluster: BlockingCluster, ranges: Iterable[IdRange], settings: ReadSettings) -> float:
    """Return the average bytes of log of a message, over the first messages of each range; 1.0 if there are none.

    Gaps are not counted, and a wrapper counts by its compressed size. Raises the errors of RangeReader.rows except
    DataLost, which the task that reads the range reports according to its settings.
    """
    messages = size = 0
    for each in ranges:
        if not each.bytes:
            continue
        reader = RangeReader(cluster, each, evolve(settings, fetch_bytes=SAMPLED_BYTES, row_bytes=SAMPLED_BYTES))
        try:
            with closing(reader.rows()) as rows:
                found = next(rows, None)
        except DataLost:
            continue
        if found is not None:
            messages += len(found)
            size += found.nexts[-1] - found.ids[0]
    return max(size / messages, 1.0) if messages else 1.0
