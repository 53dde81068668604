"""The headers of a magic-2 entry: named values between the key and the payload.

varint header_count | header*
header := varint name_bytes | name UTF-8 | varint (value_bytes + 1, 0 = no value) | value
"""

from __future__ import annotations

from logd.protocol.varint import decode_varint, encode_varint

Headers = tuple[tuple[str, bytes | None], ...]


def encode_headers(headers: Headers) -> bytes:
    """Return the count and the headers in the format of an entry."""
    if not headers:
        return b"\0"
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        pieces += (encode_varint(len(encoded)), encoded)
        if value is None:
            pieces.append(b"\0")
        else:
            pieces += (encode_varint(len(value) + 1), value)
    return b"".join(pieces)


def decode_headers(data: bytes | memoryview, at: int, stop: int) -> tuple[Headers, int]:
    """Return the headers that begin at ``at`` and the index behind them; raise ValueError if they do not fit."""
    count, at = decode_varint(data, at, stop)
    if count * 2 > stop - at:  # a header takes at least two bytes: never loop over an impossible count
        raise ValueError(f"{count} headers in {stop - at} bytes")
    headers = []
    for _ in range(count):
        length, at = decode_varint(data, at, stop)
        if length > stop - at:
            raise ValueError("a header's name is longer than its entry")
        name = str(data[at : at + length], "utf-8")  # UnicodeDecodeError is a ValueError
        length, at = decode_varint(data, at + length, stop)
        value = None
        if length:
            end = at + length - 1
            if end > stop:
                raise ValueError("a header's value is longer than its entry")
            value = bytes(data[at:end])
            at = end
        headers.append((name, value))
    return tuple(headers), at
