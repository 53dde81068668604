"""A broker's side of one connection: bytes in, requests out; answers in, bytes out in the order that 0.7 promises."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct, error
from typing import Generic, TypeVar

from logd.errors import ProtocolViolation
from logd.protocol.foreign import foreign_opening, foreign_request, is_api_versions
from logd.protocol.framing import DEFAULT_MAX_FRAME_BYTES, FrameBuffer
from logd.protocol.legacy_requests import PRODUCE, Produce
from logd.protocol.requests import Request, Unsupported, decode_request, expects_response, is_legacy

Piece = TypeVar("Piece")

_TYPE_AND_LENGTH = Struct(">hh")
_PRODUCE_TAIL = Struct(">ii")


class _Turn(Generic[Piece]):
    """A request of 0.7 that waits to be answered, and its answer while those before it have none."""

    __slots__ = ("pieces", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.pieces: list[Piece] | None = None


class ServerConversation(Generic[Piece]):
    """What is said on one connection, seen by the broker.

    ``Piece`` is what answers are made of: bytes, and ranges of files.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._frames = FrameBuffer(max_frame_bytes)
        self._turns: deque[_Turn[Piece]] = deque()
        #: By id() of the request, which the value keeps alive: equal requests are different ones.
        self._turn_of: dict[int, _Turn[Piece]] = {}
        self._ours: dict[int, Request] = {}
        #: Why the connection has to be closed: what arrived is not this protocol. None while all is well.
        self.violation: ProtocolViolation | None = None
        #: Whether a request has come: a peer that speaks another protocol shows it at once.
        self._spoke = False

    @property
    def unanswered(self) -> int:
        """How many requests wait for an answer, or have one that is held back."""
        return len(self._turns) + len(self._ours)

    @property
    def kept_bytes(self) -> int:
        """How many bytes of a request are here that is not complete."""
        return self._frames.kept_bytes

    def receive_data(self, data: bytes) -> list[Request]:
        """Return the requests that ``data`` completes, in order.

        Where the stream breaks ``violation`` is set, the requests before that are returned, and all later data is
        ignored.
        """
        requests: list[Request] = []
        if self.violation is not None:
            return requests
        append = requests.append
        try:
            for frame, start, stop in self._frames.feed(data):
                request = _read_produce(frame, start, stop)
                if request is not None:
                    append(request)
                else:
                    decode = decode_request if self._spoke or requests else _decode_first
                    append(self._expect(decode(frame, start, stop)))
        except ProtocolViolation as violation:
            foreign = None if self._spoke or requests else foreign_opening(self._frames.refused_size)
            self.violation = foreign or violation
        if requests:
            self._spoke = True
        return requests

    def _expect(self, request: Request) -> Request:
        """Remember a request that has to be answered."""
        if expects_response(request):
            if is_legacy(request):
                turn: _Turn[Piece] = _Turn(request)
                self._turns.append(turn)
                self._turn_of[id(request)] = turn
            else:
                self._ours[id(request)] = request
        return request

    def answer(self, request: Request, pieces: Sequence[Piece]) -> list[Piece]:
        """Take the answer to ``request``, a whole frame in pieces, and return what may be sent now, in order.

        An answer to a request of 0.7 is held until those before it are answered; one of ours is never held. Raises
        ValueError for a request that waits for no answer.
        """
        if self._ours.pop(id(request), None) is not None:
            return list(pieces)
        turn = self._turn_of.pop(id(request), None)
        if turn is None:
            raise ValueError(f"nothing waits for an answer to this {type(request).__name__}")
        turn.pieces = list(pieces)
        released: list[Piece] = []
        turns = self._turns
        while turns and turns[0].pieces is not None:
            released += turns.popleft().pieces or ()
        return released

    def exchange(self, request: Request, other: Request) -> None:
        """Let ``other`` stand for a request of ours that waits for its answer, so that what that holds can be freed."""
        if self._ours.pop(id(request), None) is not None:
            self._ours[id(other)] = other

    def held_pieces(self) -> list[Piece]:
        """Forget all requests; return the answers held back, so that what they keep open can be closed."""
        held = [piece for turn in self._turns for piece in turn.pieces or ()]
        self._turns.clear()
        self._turn_of.clear()
        self._ours.clear()
        return held


def _decode_first(frame: bytes | memoryview, start: int, stop: int) -> Request:
    """Read the first request of a connection; where it is none of ours, look whether a client of today's Kafka sent it.

    Kafka's ApiVersions has the type of our FetchWait, and in its later versions looks like one of a later release.
    """
    try:
        request = decode_request(frame, start, stop)
    except ProtocolViolation as violation:
        raise foreign_request(frame, start, stop) or violation from None
    foreign = is_api_versions(frame, start, stop) if isinstance(request, Unsupported) else None
    if foreign is not None:
        raise foreign
    return request


def _read_produce(frame: bytes | memoryview, start: int, stop: int) -> Produce | None:
    """Read a Produce without a detour: a producer may send one message in each. None for any other request.

    One that is not sound is left to decode_request, which says what is wrong with it.
    """
    try:
        number, length = _TYPE_AND_LENGTH.unpack_from(frame, start)
        if number != PRODUCE or length < 0:
            return None
        at = start + 4 + length
        partition, set_bytes = _PRODUCE_TAIL.unpack_from(frame, at)
        at += 8
        if set_bytes < 0 or at + set_bytes != stop:
            return None
        return tuple.__new__(Produce, (str(frame[start + 4 : at - 8], "utf-8"), partition, bytes(frame[at:stop])))
    except (error, UnicodeDecodeError):
        return None
