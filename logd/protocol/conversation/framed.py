"""The common part of all conversations whose requests are frames behind an int32 size."""

from __future__ import annotations

from collections import deque

from logd.errors import ProtocolViolation
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES, FrameBuffer
from logd.protocol.conversation.interfaces import Received
from logd.protocol.requests.fields import Piece, memory_of


class FramedConversation:
    """Cuts received data into frames; a subclass reads each by ``read_frame``. See IConversation."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._frames = FrameBuffer(max_frame_bytes)
        self.violation: ProtocolViolation | None = None

    @property
    def kept_bytes(self) -> int:
        """See IConversation."""
        return self._frames.kept_bytes

    def receive_data(self, data: bytes) -> list[Received]:
        """See IConversation."""
        received: list[Received] = []
        if self.violation is None:
            try:
                for frame, start, stop in self._frames.feed(data):
                    received.append(self.read_frame(frame, start, stop))
            except ProtocolViolation as violation:
                self.violation = violation
        return received

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """Read the request that is ``frame[start:stop]``, and expect its answer. Raises ProtocolViolation."""
        raise NotImplementedError


class OrderedToken:
    """The place of a request among those that wait, with its answer as long as an earlier one is missing."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[Piece] | None = None


class OrderedConversation(FramedConversation):
    """A conversation whose answers leave in the order of their requests. See IConversation."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        super().__init__(max_frame_bytes)
        self._waiting: deque[OrderedToken] = deque()
        self._closed = False
        #: See IConversation.
        self.unanswered = self.held_bytes = 0

    def expect(self, token: OrderedToken) -> None:
        """Have the answer to a request that was read follow all that are expected already."""
        self._waiting.append(token)
        self.unanswered += 1

    def release(self, token: OrderedToken, pieces: list[Piece]) -> list[Piece]:
        """Take the answer to a request. Return what may be sent now: nothing while an earlier answer is missing."""
        token.pieces = pieces
        waiting = self._waiting
        if self._closed:
            return pieces
        if token is not waiting[0]:
            self.held_bytes += memory_of(pieces)
            return []
        waiting.popleft()
        released = [*pieces]
        while waiting and (held := waiting[0].pieces) is not None:
            self.held_bytes -= memory_of(held)
            released += held
            waiting.popleft()
        self.unanswered = len(waiting)
        return released

    def close(self) -> list[Piece]:
        """See IConversation."""
        self._closed = True
        held = [piece for token in self._waiting for piece in token.pieces or ()]
        self._waiting.clear()
        self.unanswered = self.held_bytes = 0
        return held
