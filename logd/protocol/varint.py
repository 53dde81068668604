"""Unsigned LEB128 integers of at most five bytes, which the headers of a magic-2 entry use."""

from __future__ import annotations

_MAX_BYTES = 5


def encode_varint(value: int) -> bytes:
    """Return the shortest encoding of ``value``, which is 0 or more and below 2**35."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: bytes | memoryview, at: int, stop: int) -> tuple[int, int]:
    """Return the integer that begins at ``at`` and the index behind it; raise ValueError if it does not fit."""
    value = 0
    shift = 0
    for index in range(at, min(at + _MAX_BYTES, stop)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise ValueError("a varint is too long or cut off")
