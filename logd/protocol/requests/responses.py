"""All responses: whole frames from objects, and objects from whole frames.

response of 0.7   int32 size | int16 error | body
response of ours  int32 size | int32 correlation id | int16 error | body, or str text where error is not 0
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple, Protocol

from logd.protocol.requests.apis import LEGACY_BY_REQUEST, LEGACY_BY_RESPONSE, NATIVE_BY_REQUEST, NATIVE_BY_RESPONSE
from logd.protocol.requests.fields import INT16, Piece, Reader, encode_text, shorten_text, size_of
from logd.protocol.requests.legacy_requests import LegacyRequest
from logd.protocol.requests.legacy_responses import LegacyResponse
from logd.protocol.requests.requests import NativeRequest

_HEAD = Struct(">iih")


class NativeResponse(Protocol):
    """A native response, that is one of ours: the records of ``NATIVE_APIS``, and ErrorResponse.

    A response with an error code may have a ``text`` that explains it.
    """

    @property
    def error(self) -> int:
        """The error code for the request as a whole, 0 for none."""
        ...


class ErrorResponse(NamedTuple):
    """The response to a request of ours that was refused as a whole: an error code and a text."""

    error: int
    text: str = ""


Response = LegacyResponse | NativeResponse


def encode_response(response: NativeResponse, correlation_id: int) -> list[Piece]:
    """Return a whole frame of ours in pieces; message sets in it are not copied, and may be ranges of files."""
    if response.error:
        text = getattr(response, "text", "")
        pieces: list[Piece] = [encode_text(shorten_text(text))]
    else:
        encode = NATIVE_BY_RESPONSE[type(response)].encode_response
        assert encode is not None  # as for everything that has a response
        pieces = encode(response)
    first = pieces[0]
    assert isinstance(first, bytes)  # a list's count, at least
    size = len(first) if len(pieces) == 1 else sum(map(size_of, pieces))
    pieces[0] = _HEAD.pack(6 + size, correlation_id, response.error) + first
    return pieces


def encode_legacy_response(response: LegacyResponse) -> list[Piece]:
    """Return a whole frame of 0.7 in pieces; message sets in it are not copied, and may be ranges of files."""
    encode = LEGACY_BY_RESPONSE[type(response)].encode_response
    assert encode is not None  # as for everything that has a response
    return encode(response)


def read_response(request: NativeRequest, reader: Reader) -> Any:
    """Read the answer to ``request`` from its error code on; raise ProtocolViolation where lengths do not add up."""
    api = NATIVE_BY_REQUEST[type(request)]
    (error,) = reader.unpack(INT16)
    if error:
        # A response type without a field for the text of a refusal is replaced by ErrorResponse.
        refused: Any = api.response if hasattr(api.response, "text") else ErrorResponse
        response = refused(error, text=reader.text())
    else:
        assert api.read_response is not None  # all of ours have a response
        response = api.read_response(reader)
    reader.finish()
    return response


def read_legacy_response(request: LegacyRequest, reader: Reader) -> Any:
    """Read the answer to a request of 0.7 that has one; raise ProtocolViolation where lengths do not add up."""
    read = LEGACY_BY_REQUEST[type(request)].read_response
    assert read is not None  # nobody waits for an answer to the others
    return read(reader, request)
