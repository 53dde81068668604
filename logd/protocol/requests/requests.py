"""All requests: whole frames from objects, and objects from whole frames.

request of 0.7   int32 size | int16 type | body
request of ours  int32 size | int16 type | int16 version | int32 correlation id | body
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, Protocol

from logd.errors import ProtocolViolation
from logd.protocol.requests.apis import (
    LEGACY_BY_NUMBER,
    LEGACY_BY_REQUEST,
    NATIVE_BY_NUMBER,
    NATIVE_BY_REQUEST,
    NATIVE_NUMBERS,
)
from logd.protocol.requests.fields import INT16, Reader
from logd.protocol.requests.legacy_requests import LegacyRequest
from logd.protocol.requests.produce_ack import ProduceAck

#: The most items in one list of a request. The object for an item takes far more memory than its bytes on the wire, so
#: the frame limit alone does not bound memory. And each part of a produce blocks a broker for some 20 us (measured).
MAX_ITEMS = 10_000

_LEGACY_HEAD = Struct(">ih")
_HEAD = Struct(">ihhi")
_AFTER_SIZE = Struct(">hhi")
_AFTER_TYPE = Struct(">hi")


class NativeRequest(Protocol):
    """A native request, that is one of ours: the records of ``NATIVE_APIS``, and Unsupported."""

    @property
    def correlation_id(self) -> int:
        """The correlation id of the response."""
        ...


class Unsupported(NamedTuple):
    """A request of a known type in an unknown version, to be answered with UnsupportedVersion."""

    correlation_id: int
    type: int
    version: int


Request = LegacyRequest | NativeRequest


def is_legacy(request: Request) -> bool:
    """Return whether the request is one of 0.7, whose responses come in the order of the requests."""
    return type(request) in LEGACY_BY_REQUEST


def expects_response(request: Request) -> bool:
    """Return whether the request has a response."""
    if isinstance(request, ProduceAck):
        return request.acks != 0
    api = LEGACY_BY_REQUEST.get(type(request))
    if api is not None:
        return api.response is not None
    return NATIVE_BY_REQUEST[type(request)].response is not None if type(request) in NATIVE_BY_REQUEST else True


def encode_request(request: Request, correlation_id: int | None = None) -> list[bytes]:
    """Return a whole frame in pieces; message sets in it are not copied, but for small ones of ProduceAck.

    ``correlation_id`` replaces the one in a request of ours. Raises InvalidRequest for a string or a list that is too
    long for its field.
    """
    api = LEGACY_BY_REQUEST.get(type(request))
    if api is not None:
        pieces = api.encode_request(request)
        pieces[0] = _LEGACY_HEAD.pack(2 + sum(map(len, pieces)), api.number) + pieces[0]
        return pieces
    api = NATIVE_BY_REQUEST[type(request)]
    pieces = api.encode_request(request)
    if correlation_id is None:
        correlation_id = request.correlation_id  # type: ignore[union-attr]  # those of 0.7 have returned above
    size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
    pieces[0] = _HEAD.pack(8 + size, api.number, api.version, correlation_id) + pieces[0]
    return pieces


def decode_request(data: bytes | memoryview, start: int, stop: int) -> Request:
    """Return the request, of 0.7 or of ours, whose frame's bytes behind the size are ``data[start:stop]``.

    Raises ProtocolViolation for an unknown type and where lengths do not add up.
    """
    number = int.from_bytes(data[start : min(start + 2, stop)], "big", signed=True)
    decode = decode_legacy_request if number in LEGACY_BY_NUMBER else decode_native_request
    return decode(data, start, stop)


def decode_legacy_request(data: bytes | memoryview, start: int, stop: int) -> LegacyRequest:
    """Do as ``decode_request``, for the requests of 0.7 alone."""
    reader = Reader(data, start, stop, MAX_ITEMS)
    (number,) = reader.unpack(INT16)
    api = LEGACY_BY_NUMBER.get(number)
    if api is None:
        raise ProtocolViolation(f"request type {number} is not known")
    request: LegacyRequest = api.read_request(reader)
    reader.finish()
    return request


def decode_native_request(data: bytes | memoryview, start: int, stop: int) -> NativeRequest:
    """Do as ``decode_request``, for requests of ours alone."""
    if stop - start >= _AFTER_SIZE.size:
        number, version, correlation_id = _AFTER_SIZE.unpack_from(data, start)
        api = NATIVE_BY_NUMBER.get((number, version))
        if api is not None:
            reader = Reader(data, start + _AFTER_SIZE.size, stop, MAX_ITEMS)
            known: NativeRequest = api.read_request(reader, correlation_id)
            reader.finish()
            return known
    reader = Reader(data, start, stop, MAX_ITEMS)
    (number,) = reader.unpack(INT16)
    if number not in NATIVE_NUMBERS:
        raise ProtocolViolation(f"request type {number} is not known")
    version, correlation_id = reader.unpack(_AFTER_TYPE)
    api = NATIVE_BY_NUMBER.get((number, version))
    if api is None:
        return Unsupported(correlation_id, number, version)
    request: NativeRequest = api.read_request(reader, correlation_id)
    reader.finish()
    return request
