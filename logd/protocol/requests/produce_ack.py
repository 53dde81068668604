"""ProduceAck, request type 17: append sets, and acknowledge them with their positions.

    request   int16 acks | int32 timeout_ms | list of (str topic | int32 partition | int32 leader epoch | int8 flags
                                                       | int32 set_bytes | set)
    response  list of (str topic | int32 partition as asked | int16 error | int32 partition stored
                       | int64 first id | int64 next id)

Flags, bit 0: a restart, the first set after one that was refused.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text

_REQUEST = Struct(">hi")
_REQUEST_AND_COUNT = Struct(">hii")
#: The fields before the topic of the first part, the length of that topic included.
_ALONE = Struct(">hiih")
_PART = Struct(">iibi")
_PRODUCED = Struct(">ihiqq")
_RESTART = 1
_ONE_PART = INT32.pack(1)
#: Sets up to this size are copied behind the fields before them, since each piece of a frame costs more than that.
_SMALL_SET_BYTES = 4096
# A producer names the same few topics in each of its requests.
_topic_field = lru_cache(maxsize=1000)(encode_text)


class ProducePart(NamedTuple):
    """One set for one partition (-1: the broker picks).

    ``restart``: this is the first set that the producer sends again after a refused one. It ends the broker's refusal
    of this topic and partition (as requested) on this connection.
    """

    topic: str
    partition: int
    leader_epoch: int
    restart: bool
    message_set: bytes


class ProduceAck(NamedTuple):
    """Append the parts.

    ``acks``: 0 no response at all, 1 appended, n > 1 in n copies, -1 flushed and in every in-sync copy; ``timeout_ms``
    is how long the broker may wait for that.
    """

    acks: int
    timeout_ms: int
    parts: tuple[ProducePart, ...]
    correlation_id: int = 0


class ProducedPart(NamedTuple):
    """The place of a set in the log: its first id and the position after it, both -1 where ``error`` is not 0."""

    topic: str
    partition: int
    error: int
    stored_partition: int = -1
    first_id: int = -1
    next_position: int = -1


class ProduceAckResponse(NamedTuple):
    """The answer to ProduceAck, part for part in the request's order."""

    parts: tuple[ProducedPart, ...]

    @property
    def error(self) -> int:
        """0: each part carries an error of its own."""
        return 0


def encode_produce_ack(request: ProduceAck) -> list[bytes]:
    """Return the body of the request; each set that is not small is a piece of its own and not copied."""
    small = [_REQUEST_AND_COUNT.pack(request.acks, request.timeout_ms, len(request.parts))]
    pieces: list[bytes] = []
    for topic, partition, epoch, restart, message_set in request.parts:
        fixed = _PART.pack(partition, epoch, _RESTART if restart else 0, len(message_set))
        small += (_topic_field(topic), fixed, message_set)
        if len(message_set) > _SMALL_SET_BYTES:
            small.pop()
            pieces += (b"".join(small), message_set)
            small.clear()
    if small:  # thousands of small sets are joined once: to add each to the bytes so far would copy those every time
        pieces.append(b"".join(small))
    return pieces


def read_produce_ack(reader: Reader, correlation_id: int) -> ProduceAck:
    """Read the body of the request."""
    alone = _read_alone(reader, correlation_id)
    if alone is not None:
        return alone
    acks, timeout_ms = reader.unpack(_REQUEST)
    parts = []
    for _ in range(reader.count(2 + _PART.size)):
        topic = reader.text()
        partition, epoch, flags, length = reader.unpack(_PART)
        parts.append(ProducePart(topic, partition, epoch, bool(flags & _RESTART), reader.take(length)))
    return ProduceAck(acks, timeout_ms, tuple(parts), correlation_id)


def _read_alone(reader: Reader, correlation_id: int) -> ProduceAck | None:
    """Read the body of a request with one part directly. None for any other, or where lengths do not add up."""
    data, at, stop = reader.data, reader.at, reader.stop
    if stop - at < _ALONE.size:
        return None
    acks, timeout_ms, count, length = _ALONE.unpack_from(data, at)
    at += _ALONE.size
    end = at + length
    begin = end + _PART.size
    if count != 1 or length < 0 or begin > stop:
        return None
    partition, epoch, flags, size = _PART.unpack_from(data, end)
    if size < 0 or begin + size != stop:
        return None
    try:
        topic = str(data[at:end], "utf-8")
    except UnicodeDecodeError:
        return None
    reader.at = stop
    part = ProducePart(topic, partition, epoch, bool(flags & _RESTART), bytes(data[begin:stop]))
    return ProduceAck(acks, timeout_ms, (part,), correlation_id)


def encode_produce_ack_response(response: ProduceAckResponse) -> list[Piece]:
    """Return the body of the response."""
    if len(response.parts) == 1:
        topic, partition, error, stored, first, after = response.parts[0]
        return [_ONE_PART + _topic_field(topic) + _PRODUCED.pack(partition, error, stored, first, after)]
    pieces = [INT32.pack(len(response.parts))]
    for topic, partition, error, stored, first, after in response.parts:
        pieces += (_topic_field(topic), _PRODUCED.pack(partition, error, stored, first, after))
    return [b"".join(pieces)]


def read_only_part(request: ProduceAck, data: bytes | memoryview, at: int, stop: int) -> ProduceAckResponse | None:
    """Read the body of the answer to a request with one part directly: a producer may wait for one after each message.

    None for any other answer, which is left to ``read_produce_ack_response``.
    """
    if len(request.parts) != 1:
        return None
    topic = request.parts[0].topic
    expected = _ONE_PART + _topic_field(topic)
    end = at + len(expected)
    if stop - end != _PRODUCED.size or data[at:end] != expected:
        return None
    return ProduceAckResponse((ProducedPart(topic, *_PRODUCED.unpack_from(data, end)),))


def read_produce_ack_response(reader: Reader) -> ProduceAckResponse:
    """Read the body of the response."""
    return ProduceAckResponse(
        tuple([ProducedPart(reader.text(), *reader.unpack(_PRODUCED)) for _ in range(reader.count(2 + _PRODUCED.size))])
    )
