"""Kafka's Produce, versions 0 to 8.

request    from 3 on: nullable str transactional id | int16 acks | int32 timeout_ms
           | list of (str topic | list of (int32 partition | nullable bytes records))
response   list of (str topic | list of (int32 partition | int16 error | int64 base offset
                   | from 2 on: int64 time of appending | from 5 on: int64 log start
                   | from 8 on: list of (int32 number in the batch | nullable str) | nullable str error message))
           | from 1 on: int32 throttle_ms
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812  # it is a class
from typing import NamedTuple

from logd.protocol.kafka.header import READ_PARTS, check_parts, nullable_bytes, nullable_text, topic_count
from logd.protocol.requests.fields import INT16, INT32, INT64, Reader, encode_text, shorten_text

API_KEY = 0
VERSIONS = range(9)

_ACKS = Struct(">hi")
_PRODUCED = Struct(">ihq")
_TIME_AND_START = Struct(">qq")
_NULL_TEXT = INT16.pack(-1)
_NO_NUMBERS = INT32.pack(0)
#: The key, the version and the correlation id.
_BEFORE_CLIENT_ID = 2 + 2 + 4


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


def produce_acks(data: bytes | memoryview, at: int, stop: int) -> int:
    """Return the acks of the Produce whose head is at ``at``; -1 if it is none that is served."""
    try:
        (version,) = INT16.unpack_from(data, at + 2)
        if version not in VERSIONS:
            return -1
        at += _BEFORE_CLIENT_ID
        for _ in range(2 if version >= 3 else 1):  # the client id, and the transactional id
            at += INT16.size + max(INT16.unpack_from(data, at)[0], 0)
        return int(INT16.unpack_from(data, at)[0]) if at + INT16.size <= stop else -1
    except StructError:
        return -1


def read_produce(reader: Reader, version: int) -> Generator[None, None, KafkaProduce]:
    """Read the body of a request in steps of READ_PARTS. Raises ProtocolViolation."""
    transactional_id = nullable_text(reader) if version >= 3 else None
    acks, timeout_ms = reader.unpack(_ACKS)
    parts: list[KafkaProducePart] = []
    for _ in range(topic_count(reader)):
        topic = reader.text()
        count = reader.count(4 + 4)
        check_parts(len(parts) + count)
        for _ in range(count):
            partition = reader.int32()
            parts.append(KafkaProducePart(topic, partition, nullable_bytes(reader)))
            if not len(parts) % READ_PARTS:
                yield
    reader.finish()
    return KafkaProduce(version, transactional_id, acks, timeout_ms, tuple(parts))


class ProducedEncoder:
    """Writes the body of a response part by part. Parts of one topic stand together, as in the request."""

    __slots__ = ("_count", "_head_at", "_pieces", "_topic", "_topics", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        #: The first piece of a topic is written when its parts are counted.
        self._pieces: list[bytes] = [b""]
        self._topic: str | None = None
        self._topics = self._count = self._head_at = 0

    def add(self, part: KafkaProducedPart) -> None:
        """Write one part."""
        version, pieces = self.version, self._pieces
        if part.topic != self._topic:
            self._end_topic()
            self._topic, self._head_at = part.topic, len(pieces)
            self._topics += 1
            pieces.append(b"")
        self._count += 1
        pieces.append(_PRODUCED.pack(part.partition, part.error, part.base_offset))
        if version >= 5:
            pieces.append(_TIME_AND_START.pack(-1, part.log_start))
        elif version >= 2:
            pieces.append(INT64.pack(-1))
        if version >= 8:
            pieces.append(_NO_NUMBERS)
            pieces.append(_NULL_TEXT if part.message is None else encode_text(shorten_text(part.message)))

    def finish(self, throttle_ms: int) -> bytes:
        """Return the body."""
        self._end_topic()
        self._pieces[0] = INT32.pack(self._topics)
        if self.version >= 1:
            self._pieces.append(INT32.pack(throttle_ms))
        return b"".join(self._pieces)

    def _end_topic(self) -> None:
        if self._topic is not None:
            self._pieces[self._head_at] = encode_text(self._topic) + INT32.pack(self._count)
            self._count = 0


def encode_produced(parts: Iterable[KafkaProducedPart], version: int, throttle_ms: int = 0) -> bytes:
    """Return the body of the response."""
    encoder = ProducedEncoder(version)
    for part in parts:
        encoder.add(part)
    return encoder.finish(throttle_ms)
