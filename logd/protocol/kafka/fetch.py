"""Kafka's Fetch, versions 0 to 11. Sessions are not kept: session id 0 says so to the client.

request    int32 replica id | int32 max_wait_ms | int32 min_bytes | from 3 on: int32 max_bytes
           | from 4 on: int8 isolation | from 7 on: int32 session id | int32 session epoch
           | list of (str topic | list of (int32 partition | from 9 on: int32 leader epoch | int64 offset
                     | from 5 on: int64 log start | int32 max_bytes))
           | from 7 on: list of (str topic | list of int32), the forgotten ones | from 11 on: str rack
response   from 1 on: int32 throttle_ms | from 7 on: int16 error | int32 session id
           | list of (str topic | list of (int32 partition | int16 error | int64 high watermark
                     | from 4 on: int64 last stable offset | from 5 on: int64 log start
                     | from 4 on: nullable list of aborted transactions | from 11 on: int32 preferred replica
                     | int32 size of the records | records))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from struct import Struct
from typing import NamedTuple

from logd.protocol.kafka.header import check_parts
from logd.protocol.requests.fields import INT8, INT16, INT32, INT64, MessageSetField, Reader, encode_text, size_of

API_KEY = 1
VERSIONS = range(12)

_WAIT = Struct(">iii")
_SESSION = Struct(">ii")
_FETCHED = Struct(">ihq")
_NO_LIMIT = 0x7FFFFFFF
_NO_LEADER_EPOCH = -1


class KafkaFetchPart(NamedTuple):
    """Read up to ``max_bytes`` of one partition from ``offset`` on. ``leader_epoch`` -1: not checked."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int


class KafkaFetch(NamedTuple):
    """Read the parts, ``max_bytes`` in all; see FetchWait."""

    version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    parts: tuple[KafkaFetchPart, ...]


class KafkaFetchedPart(NamedTuple):
    """The answer to one part; ``error`` is a code of Kafka's. ``pieces`` are whole batches, or ranges of files."""

    topic: str
    partition: int
    error: int
    visible_end: int = -1
    log_start: int = -1
    pieces: Sequence[MessageSetField] = ()


def read_fetch(reader: Reader, version: int) -> KafkaFetch:
    """Read the body of a request. Raises ProtocolViolation."""
    _, max_wait_ms, min_bytes = reader.unpack(_WAIT)
    max_bytes = reader.int32() if version >= 3 else _NO_LIMIT
    if version >= 4:
        reader.unpack(INT8)
    if version >= 7:
        reader.unpack(_SESSION)
    parts: list[KafkaFetchPart] = []
    for _ in range(reader.count(2 + 4)):
        topic = reader.text()
        count = reader.count(4 + 8 + 4)
        check_parts(len(parts) + count)
        for _ in range(count):
            partition = reader.int32()
            epoch = reader.int32() if version >= 9 else _NO_LEADER_EPOCH
            (offset,) = reader.unpack(INT64)
            if version >= 5:
                reader.unpack(INT64)
            parts.append(KafkaFetchPart(topic, partition, epoch, offset, reader.int32()))
    if version >= 7:
        for _ in range(reader.count(2 + 4)):
            reader.text()
            reader.int32s()
    if version >= 11:
        reader.text()
    reader.finish()
    return KafkaFetch(version, max_wait_ms, min_bytes, max_bytes, tuple(parts))


def encode_fetched(parts: Sequence[KafkaFetchedPart], version: int, throttle_ms: int = 0) -> list[MessageSetField]:
    """Return the body of the response, in pieces: the batches are not copied."""
    head = b""
    if version >= 1:
        head += INT32.pack(throttle_ms)
    if version >= 7:
        head += INT16.pack(0) + INT32.pack(0)
    groups = [(topic, list(of_topic)) for topic, of_topic in groupby(parts, lambda part: part.topic)]
    pieces: list[MessageSetField] = [head + INT32.pack(len(groups))]
    for topic, of_topic in groups:
        pieces.append(encode_text(topic) + INT32.pack(len(of_topic)))
        for part in of_topic:
            fields = [_FETCHED.pack(part.partition, part.error, part.visible_end)]
            if version >= 4:
                fields.append(INT64.pack(part.visible_end))
            if version >= 5:
                fields.append(INT64.pack(part.log_start))
            if version >= 4:
                fields.append(INT32.pack(0))
            if version >= 11:
                fields.append(INT32.pack(-1))
            fields.append(INT32.pack(sum(map(size_of, part.pieces))))
            pieces += (b"".join(fields), *part.pieces)
    return pieces
