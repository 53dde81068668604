"""Variable-length integers: unsigned LEB128 in headers of a magic-2 entry, and Kafka's zigzag in batches."""

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


#: The most bytes of a number of 64 bits.
_MAX_ZIGZAG_BYTES = 10


def encode_zigzag(value: int) -> bytes:
    """Return Kafka's encoding of a signed number of at most 64 bits: LEB128 with the sign in the lowest bit."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at ``at`` and the index behind it.

    Raises ValueError if it takes more than ten bytes or 64 bits, IndexError if the data end inside it.
    """
    value = shift = 0
    for index in range(at, at + _MAX_ZIGZAG_BYTES):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value >> 1 ^ -(value & 1), index + 1
        shift += 7
    raise ValueError("a varint is longer than 64 bits")
