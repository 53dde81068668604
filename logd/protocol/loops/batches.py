"""The records inside a batch, and their encoding. logd.protocol.loops.openbatch decodes them.

    record  := varint length | int8 attributes | varint time_delta | varint number_delta | varint key_bytes | key
               | varint value_bytes | value | varint header_count | header*
    header  := varint name_bytes | name UTF-8 | varint value_bytes | value

These varints are Kafka's: zigzag, so that a length of -1 says that there is no key or value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logd.protocol.headers import Headers
from logd.protocol.message import Message
from logd.protocol.varint import encode_zigzag

#: The numbers that most messages have, encoded.
SMALL = tuple(encode_zigzag(number) for number in range(8192))
_NO_KEY = b"\x01"
#: From these numbers on, one more byte is needed.
_WIDER = frozenset((1 << 6, 1 << 13, 1 << 20, 1 << 27))


class Records(NamedTuple):
    """Encoded records, and the times for the head of their batch."""

    data: bytes
    #: In ms, -1 for none.
    base_time: int
    max_time: int


def encode_records(messages: Sequence[Message]) -> Records:
    """Return the messages, at least one, as the records of a batch, not compressed."""
    pieces: list[bytes] = []
    append = pieces.append
    small = SMALL
    most_small = len(small)
    # The first time that a message has: so no difference, not even that to no time (-1), takes more than 64 bits.
    base = newest = next((each.timestamp for each in messages if each.timestamp is not None), -1)
    # For records without key and headers: the bytes before the time, and those between number and payload, by the
    # lengths of the payload and of the encoded time. The bytes before the time hold the record's length, which includes
    # that of the number, so all are made anew when numbers take one more byte.
    around: dict[int, tuple[bytes, bytes]] = {}
    number_bytes = 1
    number = -1
    for payload, key, timestamp, headers, _, _, _, _ in messages:
        number += 1
        if number in _WIDER:
            around = {}
            number_bytes += 1
        if timestamp is None:
            delta = -1 - base
        else:
            delta = timestamp - base
            if timestamp > newest:
                newest = timestamp
        time = small[delta] if 0 <= delta < most_small else encode_zigzag(delta)
        encoded_number = small[number] if number < most_small else encode_zigzag(number)
        if key is None and not headers and payload is not None:
            kind = len(payload) << 4 | len(time)
            before_and_behind = around.get(kind)
            if before_and_behind is None:
                before_and_behind = around[kind] = _around(len(payload), len(time) + number_bytes)
            before, behind = before_and_behind
            append(before + time + encoded_number + behind)
            append(payload)
            append(b"\0")
        else:
            body = record_body(payload, key, time, encoded_number, headers)
            append(encode_zigzag(len(body)))
            append(body)
    return Records(b"".join(pieces), base, newest)


def encode_payload_records(payloads: Sequence[bytes]) -> Records:
    """Return messages that are only these payloads, at least one, as the records of a batch, not compressed."""
    pieces: list[bytes] = []
    append = pieces.append
    small = SMALL
    most_small = len(small)
    around: dict[int, tuple[bytes, bytes]] = {}
    number_bytes = 1
    for number, payload in enumerate(payloads):
        if number in _WIDER:
            around = {}
            number_bytes += 1
        size = len(payload)
        before_and_behind = around.get(size)
        if before_and_behind is None:
            before, behind = _around(size, number_bytes + 1)
            before_and_behind = around[size] = before + b"\0", behind  # each time is that of the batch: none
        before, behind = before_and_behind
        append(before + (small[number] if number < most_small else encode_zigzag(number)) + behind)
        append(payload)
        append(b"\0")
    return Records(b"".join(pieces), -1, -1)


def _around(payload_bytes: int, time_and_number_bytes: int) -> tuple[bytes, bytes]:
    """Return the bytes before the time of a record, and those between its number and its payload."""
    behind = _NO_KEY + encode_zigzag(payload_bytes)
    length = 1 + time_and_number_bytes + len(behind) + payload_bytes + 1
    return encode_zigzag(length) + b"\0", behind


def record_body(payload: bytes | None, key: bytes | None, time: bytes, number: bytes, headers: Headers) -> bytes:
    """Return a record without its length; ``time`` and ``number`` are encoded."""
    pieces = [b"\0", time, number]
    if key is None:
        pieces.append(_NO_KEY)
    else:
        pieces += (encode_zigzag(len(key)), key)
    if payload is None:
        pieces.append(b"\x01")
    else:
        pieces += (encode_zigzag(len(payload)), payload)
    pieces.append(encode_zigzag(len(headers)))
    for name, value in headers:
        encoded = name.encode()
        pieces += (encode_zigzag(len(encoded)), encoded)
        pieces += (b"\x01",) if value is None else (encode_zigzag(len(value)), value)
    return b"".join(pieces)
