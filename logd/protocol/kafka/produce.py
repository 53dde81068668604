"""Kafka's Produce, versions 0 to 8.

request    from 3 on: nullable str transactional id | int16 acks | int32 timeout_ms
           | list of (str topic | list of (int32 partition | nullable bytes records))
response   list of (str topic | list of (int32 partition | int16 error | int64 base offset
                   | from 2 on: int64 time of appending | from 5 on: int64 log start
                   | from 8 on: list of (int32 number in the batch | nullable str) | nullable str error message))
           | from 1 on: int32 throttle_ms
"""

from __future__ import annotations

from itertools import groupby
from struct import Struct
from typing import NamedTuple

from logd.protocol.kafka.header import check_parts, nullable_bytes, nullable_text
from logd.protocol.requests.fields import INT16, INT32, INT64, Reader, encode_text

API_KEY = 0
VERSIONS = range(9)

_ACKS = Struct(">hi")
_PRODUCED = Struct(">ihq")
_NULL_TEXT = INT16.pack(-1)


class KafkaProducePart(NamedTuple):
    """The records for one partition: batches, or a message set in the versions below 3; None for null."""

    topic: str
    partition: int
    records: bytes | memoryview | None


class KafkaProduce(NamedTuple):
    """``acks`` as in ProduceAck: 0 no response at all, 1 appended, -1 flushed and in every in-sync copy."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: tuple[KafkaProducePart, ...]


class KafkaProducedPart(NamedTuple):
    """The answer to one part. ``base_offset`` is -1 where ``error``, a code of Kafka's, is not 0."""

    topic: str
    partition: int
    error: int
    base_offset: int = -1
    log_start: int = -1
    message: str | None = None


def read_produce(reader: Reader, version: int) -> KafkaProduce:
    """Read the body of a request. Raises ProtocolViolation."""
    transactional_id = nullable_text(reader) if version >= 3 else None
    acks, timeout_ms = reader.unpack(_ACKS)
    parts: list[KafkaProducePart] = []
    for _ in range(reader.count(2 + 4)):
        topic = reader.text()
        count = reader.count(4 + 4)
        check_parts(len(parts) + count)
        for _ in range(count):
            partition = reader.int32()
            parts.append(KafkaProducePart(topic, partition, nullable_bytes(reader)))
    reader.finish()
    return KafkaProduce(version, transactional_id, acks, timeout_ms, tuple(parts))


def encode_produced(parts: tuple[KafkaProducedPart, ...], version: int, throttle_ms: int = 0) -> bytes:
    """Return the body of the response. Parts of one topic stand together, as in the request."""
    pieces: list[bytes] = []
    topics = 0
    for topic, group in groupby(parts, lambda part: part.topic):
        of_topic = list(group)
        pieces += (encode_text(topic), INT32.pack(len(of_topic)))
        topics += 1
        for part in of_topic:
            pieces.append(_PRODUCED.pack(part.partition, part.error, part.base_offset))
            if version >= 2:
                pieces.append(INT64.pack(-1))
            if version >= 5:
                pieces.append(INT64.pack(part.log_start))
            if version >= 8:
                message = _NULL_TEXT if part.message is None else encode_text(part.message)
                pieces += (INT32.pack(0), message)
    throttle = INT32.pack(throttle_ms) if version >= 1 else b""
    return b"".join((INT32.pack(topics), *pieces, throttle))
