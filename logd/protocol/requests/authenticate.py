"""Authenticate, request type 24: proves who a client is, before any other request of its connection.

request   str mechanism | int32 length | bytes of the mechanism's message
response  int8 done | int32 length | bytes of the mechanism's answer
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text

_DONE_AND_LENGTH = Struct(">bi")


class Authenticate(NamedTuple):
    """One message of an exchange by ``mechanism``, such as SCRAM-SHA-256."""

    mechanism: str
    data: bytes
    correlation_id: int = 0

    def __repr__(self) -> str:
        """Leave out the message, in which there may be a password."""
        return f"Authenticate({self.mechanism!r})"


class AuthenticateResponse(NamedTuple):
    """The mechanism's answer; with ``done``, requests are the user's from now on. Or an error code and a text."""

    error: int
    done: bool = False
    data: bytes = b""
    text: str = ""


def encode_authenticate(request: Authenticate) -> list[bytes]:
    """Return the body of the request."""
    return [b"".join((encode_text(request.mechanism), INT32.pack(len(request.data)), request.data))]


def read_authenticate(reader: Reader, correlation_id: int) -> Authenticate:
    """Read the body of the request."""
    return Authenticate(reader.text(), reader.take(reader.int32()), correlation_id)


def encode_authenticate_response(response: AuthenticateResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    return [_DONE_AND_LENGTH.pack(response.done, len(response.data)) + response.data]


def read_authenticate_response(reader: Reader) -> AuthenticateResponse:
    """Read the body of a response without an error."""
    done, length = reader.unpack(_DONE_AND_LENGTH)
    if done not in (0, 1):
        raise ProtocolViolation(f"done = {done}, allowed are 0 and 1")
    return AuthenticateResponse(0, done == 1, reader.take(length))
