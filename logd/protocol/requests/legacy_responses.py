"""The responses of Kafka 0.7, as whole frames.

response := int32 size | int16 error | body
 Fetch       body = message set
 MultiFetch  error = 0; body = for each, in order: int32 (2 + set_bytes) | int16 error | set
 Offsets     body = int32 count | count * int64, descending
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from logd.protocol.requests.fields import Piece, Reader, encode_int64s, size_of
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, Offsets

_HEAD = Struct(">ih")
_ERROR = Struct(">h")


class FetchResponse(NamedTuple):
    """The answer to a Fetch: an int16 error code, 0 for none, and a set that may end in the middle of an entry."""

    error: int
    #: Bytes where it was received; a broker's is the range of a file (IFileRange), or empty.
    message_set: Any = b""


class MultiFetchResponse(NamedTuple):
    """The answers to a MultiFetch in its order; ``error`` is not 0 only where the whole request was refused."""

    error: int
    parts: tuple[FetchResponse, ...] = ()


class OffsetsResponse(NamedTuple):
    """The answer to Offsets: positions, descending."""

    error: int
    offsets: tuple[int, ...] = ()


LegacyResponse = FetchResponse | MultiFetchResponse | OffsetsResponse


def encode_fetch_response(response: FetchResponse) -> list[Piece]:
    """Return the answer to a Fetch; the set is a piece of its own."""
    error, message_set = response
    size = size_of(message_set)
    head = _HEAD.pack(2 + size, error)
    return [head, message_set] if size else [head]


def encode_multi_fetch_response(response: MultiFetchResponse) -> list[Piece]:
    """Return the answer to a MultiFetch; each set is a piece of its own."""
    sizes = [size_of(part.message_set) for part in response.parts]
    heads = [_HEAD.pack(2 + sum([_HEAD.size + size for size in sizes]), response.error)]
    pieces: list[Piece] = []
    for (error, message_set), size in zip(response.parts, sizes, strict=True):
        heads.append(_HEAD.pack(2 + size, error))
        if size:
            pieces += (b"".join(heads), message_set)
            heads.clear()
    if heads:
        pieces.append(b"".join(heads))
    return pieces


def encode_offsets_response(response: OffsetsResponse) -> list[Piece]:
    """Return the answer to Offsets; one with an error has no list."""
    body = b"" if response.error else encode_int64s(response.offsets)
    return [_HEAD.pack(2 + len(body), response.error) + body]


def read_fetch_response(reader: Reader, request: Fetch) -> FetchResponse:
    """Read the answer to a Fetch behind its frame's size."""
    (error,) = reader.unpack(_ERROR)
    return FetchResponse(error, reader.rest())


def read_multi_fetch_response(reader: Reader, request: MultiFetch) -> MultiFetchResponse:
    """Read the answer to a MultiFetch; ProtocolViolation if it has another number of parts than the request."""
    (error,) = reader.unpack(_ERROR)
    if error:
        reader.finish()
        return MultiFetchResponse(error)
    parts = []
    for _ in request.fetches:
        length, part_error = reader.unpack(_HEAD)
        parts.append(FetchResponse(part_error, reader.take(length - 2)))
    reader.finish()
    return MultiFetchResponse(0, tuple(parts))


def read_offsets_response(reader: Reader, request: Offsets) -> OffsetsResponse:
    """Read the answer to Offsets."""
    (error,) = reader.unpack(_ERROR)
    offsets = () if error and reader.at == reader.stop else reader.int64s()
    reader.finish()
    return OffsetsResponse(error, offsets)
