"""The fields of a magic-2 entry: a message with a key, a time or headers, or a tombstone.

uint8 attributes | int64 timestamp_ms | int32 key_length | key | headers | value        behind N, magic and crc
"""

from __future__ import annotations

from struct import Struct

from logd.protocol.headers import Headers, decode_headers

#: Attributes, timestamp and key length, which follow the checksum.
KEYED_HEAD = Struct(">Bqi")
#: The index of those in an entry, and that of the key.
KEYED_HEAD_AT = 9
KEY_AT = KEYED_HEAD_AT + KEYED_HEAD.size
#: Of the attributes: the message has no value.
NO_VALUE = 0x08


def keyed_fields(data: bytes | memoryview, at: int, stop: int) -> tuple[Headers, int]:
    """Return the headers of a magic-2 entry and the index of its value; raise ValueError for a field that is wrong."""
    attributes, timestamp, key_length = KEYED_HEAD.unpack_from(data, at + KEYED_HEAD_AT)
    if attributes not in (0, NO_VALUE) or timestamp < -1:
        raise ValueError(f"attributes {attributes:#04x} or timestamp {timestamp} is out of range")
    value_at = at + KEY_AT
    if key_length > 0:
        value_at += key_length
    elif key_length < -1:
        raise ValueError(f"key length {key_length} is out of range")
    if value_at >= stop:
        raise ValueError(f"key length {key_length} is out of range")
    if data[value_at]:
        headers, value_at = decode_headers(data, value_at, stop)
    else:
        headers = ()
        value_at += 1
    if attributes and value_at != stop:
        raise ValueError("a tombstone has a value")
    return headers, value_at
