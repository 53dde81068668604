"""The mark of a leader epoch: the first entry of each epoch, written by the leader, which every reader passes over.

    entry     int32 N = 40 | magic 1 | attributes 1 (gzip) | uint32 crc of the payload | payload
    payload   1f 8b 08 04 00000000 00 ff | 0c 00 | "LE" | 08 00 | int32 epoch | int32 broker | 03 00 | 8 zero bytes

The payload is a gzip member that unpacks to no bytes; its extra field ``LE`` has the epoch and the broker (big-endian,
unlike gzip's own numbers). So what the epoch file says can be read from the log alone. Producers may not send such an
entry.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.entry import MARK_HEAD, WRAPPER_HEAD_BYTES, encode_wrapped

_FIELDS = Struct(">ii")
#: The codec gzip in a wrapper's attributes.
_GZIP = 1
#: An empty last block of deflate, then the checksum and the length of no bytes.
_TAIL = b"\x03\x00" + bytes(8)
_PAYLOAD_BYTES = len(MARK_HEAD) + _FIELDS.size + len(_TAIL)
#: Bytes of a mark.
MARK_BYTES = WRAPPER_HEAD_BYTES + _PAYLOAD_BYTES
#: The bytes with which every mark begins: length, magic and codec.
MARK_OPENING = encode_wrapped(_GZIP, bytes(_PAYLOAD_BYTES))[:6]


class EpochMark(NamedTuple):
    """A leader epoch and the broker that leads in it."""

    epoch: int
    broker: int


def encode_epoch_mark(mark: EpochMark) -> bytes:
    """Return the entry."""
    return encode_wrapped(_GZIP, MARK_HEAD + _FIELDS.pack(*mark) + _TAIL)


def read_epoch_mark(entry: bytes | memoryview) -> EpochMark | None:
    """Return the mark that an entry is, None for any other entry."""
    if len(entry) != MARK_BYTES:
        return None
    payload = bytes(entry[WRAPPER_HEAD_BYTES:])
    if not payload.startswith(MARK_HEAD):
        return None
    mark = EpochMark(*_FIELDS.unpack_from(payload, len(MARK_HEAD)))
    return mark if encode_epoch_mark(mark) == entry else None
