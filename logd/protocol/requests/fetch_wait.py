"""FetchWait, request type 18: read several partitions, and wait for bytes if there are none yet.

    request   int32 max_wait_ms | int32 min_bytes | int32 max_bytes
              | list of (str topic | int32 partition | int32 leader epoch | int64 offset | int32 max_bytes | int8 flags)
    response  list of (str topic | int32 partition | int16 error | int64 log start | int64 visible end
                       | int64 position of the first byte sent | int32 set_bytes | set)

Flags, bit 0: exact. Without it an offset inside an entry is answered from the entry that contains it, so that the first
byte sent begins an entry; with it from exactly that offset, for a consumer that joins the bytes of several answers.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text, size_of

_REQUEST = Struct(">iii")
_PART = Struct(">iiqib")
_FETCHED = Struct(">ihqqqi")
_EXACT = 1


class FetchPart(NamedTuple):
    """Read up to ``max_bytes`` of one partition from ``offset`` on."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int
    exact: bool = False


class FetchWait(NamedTuple):
    """Read the parts, ``max_bytes`` in all.

    Answered when ``min_bytes`` are available, a closed segment's end is reached, or after ``max_wait_ms``.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    parts: tuple[FetchPart, ...]
    correlation_id: int = 0


class FetchedPart(NamedTuple):
    """The answer to one part; positions are -1 where they are not known.

    ``message_set`` begins at ``first_position`` and may end in the middle of an entry.
    """

    topic: str
    partition: int
    error: int
    log_start: int = -1
    visible_end: int = -1
    first_position: int = -1
    #: Bytes, or a view of a large response that was received; in a broker, the range of a file (IFileRange).
    message_set: Any = b""


class FetchWaitResponse(NamedTuple):
    """The answer to FetchWait, part for part in the request's order."""

    parts: tuple[FetchedPart, ...]

    @property
    def error(self) -> int:
        """0: each part carries an error of its own."""
        return 0


def encode_fetch_wait(request: FetchWait) -> list[bytes]:
    """Return the body of the request."""
    pieces = [_REQUEST.pack(request.max_wait_ms, request.min_bytes, request.max_bytes), INT32.pack(len(request.parts))]
    for topic, partition, epoch, offset, max_bytes, exact in request.parts:
        pieces += (encode_text(topic), _PART.pack(partition, epoch, offset, max_bytes, _EXACT if exact else 0))
    return [b"".join(pieces)]


def read_fetch_wait(reader: Reader, correlation_id: int) -> FetchWait:
    """Read the body of the request."""
    max_wait_ms, min_bytes, all_bytes = reader.unpack(_REQUEST)
    parts = []
    for _ in range(reader.count(2 + _PART.size)):
        topic = reader.text()
        partition, epoch, offset, max_bytes, flags = reader.unpack(_PART)
        parts.append(FetchPart(topic, partition, epoch, offset, max_bytes, bool(flags & _EXACT)))
    return FetchWait(max_wait_ms, min_bytes, all_bytes, tuple(parts), correlation_id)


def encode_fetch_wait_response(response: FetchWaitResponse) -> list[Piece]:
    """Return the body of the response; each set is a piece of its own and not copied."""
    heads = [INT32.pack(len(response.parts))]
    pieces: list[Piece] = []
    for topic, partition, error, log_start, visible_end, first_position, message_set in response.parts:
        size = size_of(message_set)
        heads += (
            encode_text(topic),
            _FETCHED.pack(partition, error, log_start, visible_end, first_position, size),
        )
        if size:
            pieces += (b"".join(heads), message_set)
            heads.clear()
    if heads:
        pieces.append(b"".join(heads))
    return pieces


def read_fetch_wait_response(reader: Reader) -> FetchWaitResponse:
    """Read the body of the response."""
    parts = []
    for _ in range(reader.count(2 + _FETCHED.size)):
        topic = reader.text()
        partition, error, log_start, visible_end, first_position, length = reader.unpack(_FETCHED)
        message_set = reader.view(length)
        parts.append(FetchedPart(topic, partition, error, log_start, visible_end, first_position, message_set))
    return FetchWaitResponse(tuple(parts))
