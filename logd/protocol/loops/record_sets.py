"""Plain and keyed entries as the records of a batch with sparse offsets, for clients of Kafka.

The offset of each message is the last position of its entry; logd.protocol.loops.batches draws a record.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from logd.protocol.entry import KEYED, LAYOUTS, MAGIC_AT, PLAIN, WRAPPER, codec_at, size_at
from logd.protocol.loops.batches import record_body
from logd.protocol.varint import encode_zigzag

#: A batch says its offsets by an int32, less its first one.
MOST_DELTA = (1 << 31) - 1


class MadeRecords(NamedTuple):
    """The records that one call of records_of_set made, and the times for the head of their batch."""

    #: The index behind the last entry, and the number of entries.
    consumed: int
    messages: int
    records: bytes
    #: In ms, -1 for none: that of the first message, and the newest.
    base_time: int
    max_time: int


def records_of_set(
    data: bytes,
    position: int,
    base_offset: int,
    *,
    begin: int = 0,
    until: int = sys.maxsize,
    limit: int = sys.maxsize,
) -> MadeRecords:
    """Make records of the entries with one message from index ``begin`` on; ``position`` is that of the data.

    Takes entries that begin before ``until``, at most ``limit``. Stops before an entry that is incomplete or damaged,
    one of another kind, and one whose offset is before ``base_offset`` or too far behind it.
    """
    pieces: list[bytes] = []
    at = begin
    count = 0
    base_time = max_time = -1
    stop = len(data)
    while at < until and count < limit and (size := size_at(data, at)) and at + size <= stop:
        magic = data[at + MAGIC_AT]
        delta = position + at + size - 1 - base_offset
        if magic not in (PLAIN, WRAPPER, KEYED) or codec_at(data, at) or not 0 <= delta <= MOST_DELTA:
            break
        layout = LAYOUTS[magic]
        if not layout.holds(data, at, at + size):
            break
        try:
            payload, key, time, headers = layout.fields(data, at, at + size)
        except ValueError:
            break
        time = -1 if time is None else time
        if not count:
            base_time = max_time = time
        body = record_body(payload, key, encode_zigzag(time - base_time), encode_zigzag(delta), headers)
        pieces += (encode_zigzag(len(body)), body)
        max_time = max(max_time, time)
        count += 1
        at += size
    return MadeRecords(at, count, b"".join(pieces), base_time, max_time)
