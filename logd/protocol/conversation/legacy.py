"""The wire protocol of Kafka 0.7 on the server's side: answers leave in the order of their requests."""

from __future__ import annotations

from zope.interface import implementer

from logd.protocol.conversation.framed import OrderedConversation, OrderedToken
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.requests.apis import LEGACY_BY_REQUEST
from logd.protocol.requests.fields import Piece
from logd.protocol.requests.legacy_responses import LegacyResponse
from logd.protocol.requests.requests import decode_legacy_request
from logd.protocol.requests.responses import encode_legacy_response


@implementer(IConversation)
class LegacyConversation(OrderedConversation):
    """The conversation of Kafka 0.7. Produce requests are never answered."""

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """See FramedConversation."""
        request = decode_legacy_request(frame, start, stop)
        if LEGACY_BY_REQUEST[type(request)].response is None:
            return request, None
        token = OrderedToken()
        self.expect(token)
        return request, token

    def answer(self, token: OrderedToken, response: LegacyResponse) -> list[Piece]:
        """See IConversation; the answer is held until those before it are there."""
        if token.pieces is not None:
            raise ValueError(f"a second answer to one request: {response!r}")
        return self.release(token, encode_legacy_response(response))
