"""Messages that are no batch in the log, as batches with sparse offsets, or as message sets of Kafka's old clients.

    message set   := (int64 offset | int32 size | message)*
    message       := uint32 crc | int8 magic (0 or 1) | int8 attributes | in magic 1: int64 timestamp | key | value
    key, value    := int32 size (-1: there is none) | bytes

Headers have no place in a message set and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

from logd.protocol.kafka.wire_batches import encode_wire_batch
from logd.protocol.loops.batches import record_body
from logd.protocol.message import Message
from logd.protocol.varint import encode_zigzag

#: A batch says its last offset by an int32, less its first one.
MOST_DELTA = (1 << 31) - 1
_ENTRY = Struct(">qiI")
_CRC_BYTES = 4
_MAGIC_0 = Struct(">bb")
_MAGIC_1 = Struct(">bbq")
_SIZE = Struct(">i")
_NONE = _SIZE.pack(-1)


def encode_messages(messages: Sequence[Message], base_offset: int, last_delta: int) -> bytes:
    """Return messages, at least one, as a batch from ``base_offset`` on. Their offsets are their last positions."""
    deltas = [message.next_position - 1 - base_offset for message in messages]
    times = [-1 if message.timestamp is None else message.timestamp for message in messages]
    records = b"".join(_records(messages, deltas, times))
    return encode_wire_batch(records, len(messages), base_offset, last_delta, times[0], max(times))


def _records(messages: Sequence[Message], deltas: Sequence[int], times: Sequence[int]) -> Iterator[bytes]:
    """Yield the messages as records, with these offsets less the base offset, and times less the first one."""
    base_time = times[0]
    for message, delta, time in zip(messages, deltas, times, strict=True):
        body = record_body(
            message.payload, message.key, encode_zigzag(time - base_time), encode_zigzag(delta), message.headers
        )
        yield encode_zigzag(len(body))
        yield body


def encode_old_messages(messages: Sequence[Message], magic: int) -> bytes:
    """Return messages as a message set of ``magic`` 0 or 1. Their offsets are their last positions."""
    pieces: list[bytes] = []
    for message in messages:
        time = -1 if message.timestamp is None else message.timestamp
        head = _MAGIC_1.pack(1, 0, time) if magic else _MAGIC_0.pack(0, 0)
        body = b"".join((head, *_sized(message.key), *_sized(message.payload)))
        pieces += (_ENTRY.pack(message.next_position - 1, _CRC_BYTES + len(body), crc32(body)), body)
    return b"".join(pieces)


def _sized(value: bytes | None) -> tuple[bytes, ...]:
    return (_NONE,) if value is None else (_SIZE.pack(len(value)), value)
