"""Messages of wrappers as batches, and any messages as the message sets of Kafka's old clients.

    message set   := (int64 offset | int32 size | message)*
    message       := uint32 crc | int8 magic (0 or 1) | int8 attributes | in magic 1: int64 timestamp | key | value
    key, value    := int32 size (-1: there is none) | bytes

Headers have no place in a message set and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

from logd.protocol import loops
from logd.protocol.kafka.wire_batches import encode_wire_batch
from logd.protocol.message import Message

_ENTRY = Struct(">qiI")
_CRC_BYTES = 4
_MAGIC_0 = Struct(">bb")
_MAGIC_1 = Struct(">bbq")
_SIZE = Struct(">i")
_NONE = _SIZE.pack(-1)


def encode_messages(messages: Sequence[Message], behind: int) -> bytes:
    """Return messages whose offsets follow one another, at least one, as a batch that reaches up to ``behind``."""
    base_offset = messages[0].next_position - 1
    records = loops.encode_records(messages)
    last_delta = behind - 1 - base_offset
    return encode_wire_batch(records.data, len(messages), base_offset, last_delta, records.base_time, records.max_time)


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
