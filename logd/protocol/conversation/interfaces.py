"""The interface of a wire protocol on the server's side, between the bytes of one connection and the handlers."""

from __future__ import annotations

from typing import Any

from zope.interface import Attribute, Interface

from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import Piece

#: A request, and the token to answer it with; None in the token's place where nothing answers the request.
Received = tuple[Any, Any]


class IConversation(Interface):
    """The server's side of one connection in one wire protocol, without input and output.

    Bytes come in and requests go out; responses come in and bytes go out. Requests and responses are plain records
    (``logd.protocol.requests.apis``): a handler does not know which wire protocol carries them, and a wire protocol
    does not know the handlers. What else an answer needs on the wire, such as a correlation id or a version, is kept
    in the token, which nobody else looks into. An object serves one connection, from its beginning to its end.

    Called on one thread. No method waits or blocks.
    """

    violation: ProtocolViolation | None = Attribute(
        "Why the connection has to be closed: what arrived is not this protocol. None while all is well."
    )
    unanswered: int = Attribute("How many requests wait for an answer, or have one that is held back.")
    held_bytes: int = Attribute("How many bytes in memory are held back, of answers that wait for others.")
    kept_bytes: int = Attribute("How many bytes are kept of a request that is not complete.")

    def receive_data(data: bytes) -> list[Received]:
        """Return each request that ``data`` completes, in order, with its token. Produces may be joined to one request.

        Where the stream breaks, ``violation`` is set, the requests before that place are returned, and all later data
        is ignored.
        """

    def answer(token: Any, response: Any) -> list[Piece]:
        """Take the response to one request, and return what may be sent now, in order.

        The list is empty while the protocol has the response wait for others. Message sets in a response may be ranges
        of files (IFileRange): they become pieces of their own. Raises ValueError for a token that was answered before.
        """

    def close() -> list[Piece]:
        """Forget all requests: the connection is gone. Return the pieces held back, so that their files can be closed.

        Later answers are returned at once, for the same reason.
        """
