"""The wire protocol of Kafka 0.7 on the server's side: answers leave in the order of their requests."""

from __future__ import annotations

from collections import deque

from zope.interface import implementer

from logd.protocol.conversation.framed import FramedConversation
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.requests.apis import LEGACY_BY_REQUEST
from logd.protocol.requests.fields import Piece, memory_of
from logd.protocol.requests.legacy_responses import LegacyResponse
from logd.protocol.requests.requests import decode_legacy_request
from logd.protocol.requests.responses import encode_legacy_response


class LegacyToken:
    """The place of a request among those that wait, with its answer as long as an earlier one is missing."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[Piece] | None = None


@implementer(IConversation)
class LegacyConversation(FramedConversation):
    """The conversation of Kafka 0.7. Produce requests are never answered."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        super().__init__(max_frame_bytes)
        self._waiting: deque[LegacyToken] = deque()
        self._closed = False
        #: See IConversation.
        self.unanswered = self.held_bytes = 0

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """See FramedConversation."""
        request = decode_legacy_request(frame, start, stop)
        if LEGACY_BY_REQUEST[type(request)].response is None:
            return request, None
        token = LegacyToken()
        self._waiting.append(token)
        self.unanswered += 1
        return request, token

    def answer(self, token: LegacyToken, response: LegacyResponse) -> list[Piece]:
        """See IConversation; the answer is held until those before it are there."""
        if token.pieces is not None:
            raise ValueError(f"a second answer to one request: {response!r}")
        token.pieces = pieces = encode_legacy_response(response)
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
