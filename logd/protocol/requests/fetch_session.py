"""FetchWait, version 1: a fetch session, in which a request names only the partitions that have changed.

    request   int32 session | int32 epoch | int32 max_wait_ms | int32 min_bytes | int32 max_bytes
              | list of (str topic | list of (int32 number | int32 partition | int32 leader epoch
                                              | int64 offset | int32 max_bytes | int8 flags))     parts that are new
              | list of (int32 number | int64 offset | int32 max_bytes | int8 flags)              parts that go on
              | list of int32 number                                                              parts to forget
    response  int32 session | int32 epoch
              | list of (int32 number | int16 error | int64 log start | int64 visible end
                         | int64 position of the first byte sent | int32 set_bytes)
              | the sets, in the same order

Flags, bit 0: exact, as in version 0; bit 1: at once, which has the part answered even when it has no bytes.
"""

from __future__ import annotations

from collections import defaultdict
from struct import Struct
from typing import Any, NamedTuple

from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT32, Piece, Reader, encode_int32s, encode_text, size_of

_REQUEST = Struct(">iiiii")
_NEW = Struct(">iiiqib")
_MOVED = Struct(">iqib")
_SESSION = Struct(">ii")
_FETCHED = Struct(">ihqqqi")

#: Flags of a part: the bytes from exactly the offset on; an answer even when there are no bytes.
EXACT = 1
AT_ONCE = 2


class NewPart(NamedTuple):
    """Watch a partition under ``number``, which the client chooses, and read it as ``MovedPart`` does."""

    topic: str
    number: int
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int
    flags: int = 0


class MovedPart(NamedTuple):
    """Read up to ``max_bytes`` of a watched partition from ``offset`` on, once."""

    number: int
    offset: int
    max_bytes: int
    flags: int = 0


class FetchWaitV1(NamedTuple):
    """Change a fetch session, and wait for bytes of any of the parts that it waits for.

    ``session`` is chosen by the client and belongs to the connection. Epoch 0 begins it, or begins it anew; each
    further request has the next epoch.
    """

    session: int
    epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    new: tuple[NewPart, ...] = ()
    moved: tuple[MovedPart, ...] = ()
    forgotten: tuple[int, ...] = ()
    correlation_id: int = 0


class SessionPart(NamedTuple):
    """The answer to one part, named by its number; see FetchedPart."""

    number: int
    error: int
    log_start: int = -1
    visible_end: int = -1
    first_position: int = -1
    message_set: Any = b""


class FetchWaitResponseV1(NamedTuple):
    """The parts that have something, as of the request with ``epoch``: of later changes it knows nothing."""

    session: int
    epoch: int
    parts: tuple[SessionPart, ...]

    @property
    def error(self) -> int:
        """0: each part carries an error of its own."""
        return 0


def encode_fetch_session(request: FetchWaitV1) -> list[bytes]:
    """Return the body of the request."""
    by_topic: defaultdict[str, list[bytes]] = defaultdict(list)
    pack = _NEW.pack
    for part in request.new:
        by_topic[part[0]].append(pack(*part[1:]))
    pieces = [_REQUEST.pack(*request[:5]), INT32.pack(len(by_topic))]
    for topic, parts in by_topic.items():
        pieces += (encode_text(topic), INT32.pack(len(parts)), *parts)
    pieces.append(INT32.pack(len(request.moved)))
    pack = _MOVED.pack
    pieces += [pack(*moved) for moved in request.moved]
    pieces.append(encode_int32s(request.forgotten))
    return [b"".join(pieces)]


def read_fetch_session(reader: Reader, correlation_id: int) -> FetchWaitV1:
    """Read the body of the request."""
    session, epoch, max_wait_ms, min_bytes, all_bytes = reader.unpack(_REQUEST)
    new: list[NewPart] = []
    for _ in range(reader.count(2 + INT32.size)):
        topic = reader.text()
        count = reader.count(_NEW.size)
        new += [NewPart(topic, *fields) for fields in _NEW.iter_unpack(reader.view(count * _NEW.size))]
        if len(new) > reader.max_items:
            raise ProtocolViolation(f"{len(new)} new parts in one request, {reader.max_items} are allowed")
    count = reader.count(_MOVED.size)
    moved = tuple(map(MovedPart._make, _MOVED.iter_unpack(reader.view(count * _MOVED.size))))
    forgotten = reader.int32s()
    return FetchWaitV1(session, epoch, max_wait_ms, min_bytes, all_bytes, tuple(new), moved, forgotten, correlation_id)


def encode_fetch_session_response(response: FetchWaitResponseV1) -> list[Piece]:
    """Return the body of the response; each set is a piece of its own and not copied."""
    heads = [_SESSION.pack(response.session, response.epoch), INT32.pack(len(response.parts))]
    sets: list[Piece] = []
    pack = _FETCHED.pack
    for number, error, log_start, visible_end, first_position, message_set in response.parts:
        size = size_of(message_set)
        heads.append(pack(number, error, log_start, visible_end, first_position, size))
        if size:
            sets.append(message_set)
    return [b"".join(heads), *sets]


def read_fetch_session_response(reader: Reader) -> FetchWaitResponseV1:
    """Read the body of the response."""
    session, epoch = reader.unpack(_SESSION)
    count = reader.count(_FETCHED.size)
    heads = reader.view(count * _FETCHED.size)
    view = reader.view
    parts = [
        SessionPart(number, error, log_start, visible_end, first_position, view(size) if size else b"")
        for number, error, log_start, visible_end, first_position, size in _FETCHED.iter_unpack(heads)
    ]
    return FetchWaitResponseV1(session, epoch, tuple(parts))
