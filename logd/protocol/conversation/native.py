"""The native wire protocol, our own, on the server's side: answers leave as they are ready, with correlation ids."""

from __future__ import annotations

from zope.interface import implementer

from logd.protocol.conversation.framed import FramedConversation
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.requests.fields import Piece
from logd.protocol.requests.requests import decode_native_request, expects_response
from logd.protocol.requests.responses import NativeResponse, encode_response


class NativeToken:
    """The correlation id of a request, and whether it was answered."""

    __slots__ = ("answered", "correlation_id")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.answered = False


@implementer(IConversation)
class NativeConversation(FramedConversation):
    """The conversation of our own protocol. Requests may share a correlation id: each has an answer."""

    #: See IConversation; no answer waits for another.
    held_bytes = 0

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        super().__init__(max_frame_bytes)
        #: See IConversation.
        self.unanswered = 0
        self._closed = False

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """See FramedConversation."""
        request = decode_native_request(frame, start, stop)
        if not expects_response(request):
            return request, None
        self.unanswered += 1
        return request, NativeToken(request.correlation_id)

    def answer(self, token: NativeToken, response: NativeResponse) -> list[Piece]:
        """See IConversation; no answer waits for another."""
        if token.answered:
            raise ValueError(f"a second answer to request {token.correlation_id:#x}: {response!r}")
        token.answered = True
        if not self._closed:
            self.unanswered -= 1
        return encode_response(response, token.correlation_id)

    def close(self) -> list[Piece]:
        """See IConversation; nothing is ever held back."""
        self._closed = True
        self.unanswered = 0
        return []
