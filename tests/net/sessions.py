"""A session that the test plays, its opener, and the bytes of requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from logd.net.server import Connection
from logd.protocol.conversation.interfaces import Received
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, encode_fetch_response
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import encode_request
from logd.protocol.requests.responses import ErrorResponse, encode_response
from tests.protocol.wire import joined


@define(eq=False)
class PlayedSession:
    """A session that notes its requests; it takes ``takes`` of them at once, and calls ``then`` with each."""

    connection: Connection
    takes: int = 1_000_000
    then: Callable[[Any], None] = lambda request: None
    taken: list[Any] = field(factory=list)
    #: Each request that was taken, with its token.
    received: list[Received] = field(factory=list)
    calls: list[int] = field(factory=list)
    losses: int = 0

    def take(self, requests: Sequence[Received]) -> int:
        """See Session."""
        taken = requests[: self.takes]
        self.calls.append(len(requests))
        for request, token in taken:
            self.taken.append(request)
            self.received.append((request, token))
            self.then(request)
        return len(taken)

    def answer(self, request: Any, response: Any) -> None:
        """Answer a request that was taken: the very object, since others may be equal."""
        (token,) = (token for each, token in self.received if each is request)
        self.connection.answer(token, response)

    def lost(self) -> None:
        """See Session."""
        self.losses += 1


@define
class Counters:
    """The counter that a server needs."""

    connections_refused: int = 0


@define
class Opener:
    """An opener of sessions that may refuse to open one."""

    refuses: bool = False
    session: PlayedSession | None = None

    def open_session(self, connection: Connection) -> PlayedSession | None:
        """See SessionOpener."""
        self.session = None if self.refuses else PlayedSession(connection)
        return self.session


def fetch(number: int) -> bytes:
    """Return the bytes of a fetch that is known by its offset."""
    return b"".join(encode_request(Fetch("t", 0, number, 10)))


def metadata(correlation_id: int) -> bytes:
    """Return the bytes of a Metadata request."""
    return b"".join(encode_request(Metadata(None, False, correlation_id)))


def fetched(message_set: Any) -> bytes:
    """Return the bytes of the answer to a fetch."""
    return joined(encode_fetch_response(FetchResponse(0, message_set)))


def described(correlation_id: int, text: str) -> bytes:
    """Return the bytes of the answer to a Metadata request; a refusal is enough here."""
    return joined(encode_response(ErrorResponse(1, text), correlation_id))


PRODUCE = b"".join(encode_request(Produce("t", 0, b"set")))
