"""The responses of Kafka 0.7, whole, and as heads for a broker that sends the sets themselves from their files.

response := int32 size | int16 error | body
 Fetch       body = message set
 MultiFetch  error = 0; body = for each, in order: int32 (2 + set_bytes) | int16 error | set
 Offsets     body = int32 count | count * int64, descending
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from logd.protocol.fields import Reader, encode_int64s

_HEAD = Struct(">ih")
_ERROR = Struct(">h")


class FetchResponse(NamedTuple):
    """The answer to a Fetch: an int16 error code, 0 for none, and a set that may end in the middle of an entry."""

    error: int
    message_set: bytes = b""


class MultiFetchResponse(NamedTuple):
    """The answers to a MultiFetch in its order; ``error`` is not 0 only where the whole request was refused."""

    error: int
    parts: tuple[FetchResponse, ...] = ()


class OffsetsResponse(NamedTuple):
    """The answer to Offsets: positions, descending."""

    error: int
    offsets: tuple[int, ...] = ()


LegacyResponse = FetchResponse | MultiFetchResponse | OffsetsResponse


def fetch_head(error: int, set_bytes: int) -> bytes:
    """Return what goes before the ``set_bytes`` bytes of a fetch's answer, its frame's size included."""
    return _HEAD.pack(2 + set_bytes, error)


def multi_fetch_heads(parts: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return what goes before each set of a MultiFetch's answer, from (error, set_bytes) of each.

    The first head holds the frame's head as well: the wire is heads[0] set0 heads[1] set1 ... With no parts the one
    head is the whole response.
    """
    heads = [_HEAD.pack(2 + set_bytes, error) for error, set_bytes in parts]
    frame = _HEAD.pack(2 + sum([_HEAD.size + set_bytes for _, set_bytes in parts]), 0)
    if not heads:
        return [frame]
    heads[0] = frame + heads[0]
    return heads


def encode_legacy_response(response: LegacyResponse) -> list[bytes]:
    """Return a whole frame."""
    if isinstance(response, FetchResponse):
        return [fetch_head(response.error, len(response.message_set)), response.message_set]
    if response.error:
        return [_HEAD.pack(2, response.error)]
    if isinstance(response, OffsetsResponse):
        body = encode_int64s(response.offsets)
        return [_HEAD.pack(2 + len(body), 0) + body]
    heads = multi_fetch_heads([(part.error, len(part.message_set)) for part in response.parts])
    if not response.parts:
        return heads
    return [piece for head, part in zip(heads, response.parts, strict=True) for piece in (head, part.message_set)]


def read_fetch_response(reader: Reader) -> FetchResponse:
    """Read the answer to a Fetch behind its frame's size."""
    (error,) = reader.unpack(_ERROR)
    return FetchResponse(error, reader.rest())


def read_multi_fetch_response(reader: Reader, count: int) -> MultiFetchResponse:
    """Read the answer to a MultiFetch of ``count`` fetches; ProtocolViolation if it has another number of parts."""
    (error,) = reader.unpack(_ERROR)
    if error:
        reader.finish()
        return MultiFetchResponse(error)
    parts = []
    for _ in range(count):
        length, part_error = reader.unpack(_HEAD)
        parts.append(FetchResponse(part_error, reader.take(length - 2)))
    reader.finish()
    return MultiFetchResponse(0, tuple(parts))


def read_offsets_response(reader: Reader) -> OffsetsResponse:
    """Read the answer to Offsets."""
    (error,) = reader.unpack(_ERROR)
    offsets = () if error and reader.at == reader.stop else reader.int64s()
    reader.finish()
    return OffsetsResponse(error, offsets)
