"""The five requests of Kafka 0.7, byte for byte.

    request  := int32 size | int16 type | body
     0 Produce       str topic | int32 partition | int32 set_bytes | set
     1 Fetch         str topic | int32 partition | int64 offset | int32 max_bytes
     2 MultiFetch    int16 count | count * Fetch body
     3 MultiProduce  int16 count | count * Produce body
     4 Offsets       str topic | int32 partition | int64 time | int32 max_count

Decoders check lengths only; the broker answers a negative partition, offset or size.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.errors import InvalidRequest
from logd.protocol.requests.fields import INT16, Reader, encode_text

#: Times with a meaning of their own in Offsets.
LATEST_TIME = -1
EARLIEST_TIME = -2

_PRODUCE_TAIL = Struct(">ii")
_FETCH_TAIL = Struct(">iqi")
_LEAST_PRODUCE_BYTES = 2 + _PRODUCE_TAIL.size
_LEAST_FETCH_BYTES = 2 + _FETCH_TAIL.size


class Produce(NamedTuple):
    """Append a set; partition -1 lets the broker pick one of its own. Nothing answers it."""

    topic: str
    partition: int
    message_set: bytes


class Fetch(NamedTuple):
    """Read up to ``max_bytes`` of a partition from ``offset`` on."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


class MultiFetch(NamedTuple):
    """Several fetches, answered in one response."""

    fetches: tuple[Fetch, ...]


class MultiProduce(NamedTuple):
    """Several produces in one request. Nothing answers it."""

    produces: tuple[Produce, ...]


class Offsets(NamedTuple):
    """Ask for up to ``max_count`` segment starts whose time is not after ``time`` (ms, or -1 latest, -2 earliest)."""

    topic: str
    partition: int
    time: int
    max_count: int


class JoinedProduces(NamedTuple):
    """Several Produces for one partition that arrived behind each other, their sets as one. Never on the wire."""

    topic: str
    partition: int
    message_set: bytes
    #: The bytes of each Produce's set.
    sizes: list[int]

    def produces(self) -> list[Produce]:
        """Return each Produce."""
        made: list[Produce] = []
        at = 0
        for size in self.sizes:
            made.append(Produce(self.topic, self.partition, self.message_set[at : at + size]))
            at += size
        return made


LegacyRequest = Produce | Fetch | MultiFetch | MultiProduce | Offsets


def encode_produce(request: Produce) -> list[bytes]:
    """Return the body of a Produce; the set is a piece of its own and not copied."""
    message_set = request.message_set
    return [encode_text(request.topic) + _PRODUCE_TAIL.pack(request.partition, len(message_set)), message_set]


def read_produce(reader: Reader) -> Produce:
    """Read one body of a Produce."""
    topic = reader.text()
    partition, length = reader.unpack(_PRODUCE_TAIL)
    return Produce(topic, partition, reader.take(length))


def encode_fetch(request: Fetch) -> list[bytes]:
    """Return the body of a Fetch."""
    return [encode_text(request.topic) + _FETCH_TAIL.pack(request.partition, request.offset, request.max_bytes)]


def read_fetch(reader: Reader) -> Fetch:
    """Read one body of a Fetch."""
    return Fetch(reader.text(), *reader.unpack(_FETCH_TAIL))


def encode_multi_fetch(request: MultiFetch) -> list[bytes]:
    """Return the body of a MultiFetch."""
    pieces = [_encode_count(len(request.fetches))]
    for fetch in request.fetches:
        pieces += encode_fetch(fetch)
    return pieces


def read_multi_fetch(reader: Reader) -> MultiFetch:
    """Read the body of a MultiFetch."""
    return MultiFetch(tuple([read_fetch(reader) for _ in range(reader.count(_LEAST_FETCH_BYTES, INT16))]))


def encode_multi_produce(request: MultiProduce) -> list[bytes]:
    """Return the body of a MultiProduce."""
    pieces = [_encode_count(len(request.produces))]
    for produce in request.produces:
        pieces += encode_produce(produce)
    return pieces


def read_multi_produce(reader: Reader) -> MultiProduce:
    """Read the body of a MultiProduce."""
    return MultiProduce(tuple([read_produce(reader) for _ in range(reader.count(_LEAST_PRODUCE_BYTES, INT16))]))


def encode_offsets(request: Offsets) -> list[bytes]:
    """Return the body of an Offsets request."""
    return [encode_text(request.topic) + _FETCH_TAIL.pack(request.partition, request.time, request.max_count)]


def read_offsets(reader: Reader) -> Offsets:
    """Read the body of an Offsets request."""
    return Offsets(reader.text(), *reader.unpack(_FETCH_TAIL))


def _encode_count(count: int) -> bytes:
    if count > 32767:
        raise InvalidRequest(f"{count} requests in one, 32767 are allowed")
    return INT16.pack(count)
