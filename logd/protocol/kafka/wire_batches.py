"""The two forms of one batch: as Kafka's clients send and read it, and as a log has it (logd.protocol.batch_layout).

    on the wire    int64 base offset | int32 L | ... | records
    in a log       int32 N | 03 | uint24 check | int32 L | ... | records | pad

The offset of a message is the last position of its interval: the messages of a batch that ends at position ``end`` have
the offsets from ``end - n`` to ``end - 1``, where n is the number of the last message plus one.
"""

from __future__ import annotations

from struct import Struct

from logd.protocol.batch_layout import (
    BATCH_FIELDS,
    BATCH_HEAD_BYTES,
    NO_LEADER_EPOCH,
    Buffer,
    batch_head,
    batch_start,
)
from logd.protocol.checksums import crc32c

#: Base offset, L, leader epoch, Kafka's magic and crc32c of a batch on the wire.
WIRE_HEAD = Struct(">qiiBI")
#: The bytes of the base offset and of L: L counts what is behind them.
WIRE_LENGTH_END = 12
_BASE_OFFSET = Struct(">q")
_LENGTH_AT = 8
_LENGTH = Struct(">i")
_MAGIC_AT = 16
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
#: The place of crc32c, and the index from which on it covers the batch.
CHECKSUM = Struct(">I")
CHECKSUM_AT = 17
CHECKED_FROM = 21
KAFKA_MAGIC = 2
#: The most messages of a batch that is taken: more than fit into the largest that a broker allows.
MOST_MESSAGES = 1 << 24


def wire_batch_end(data: Buffer, at: int, stop: int) -> int:
    """Return the index behind the batch that begins at ``at``. Raises ValueError if it is none or is cut off."""
    if stop - at < BATCH_HEAD_BYTES:
        raise ValueError(f"a batch of {stop - at} bytes; its head alone takes {BATCH_HEAD_BYTES}")
    (inner,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    end = at + WIRE_LENGTH_END + int(inner)
    if data[at + _MAGIC_AT] != KAFKA_MAGIC:
        raise ValueError(f"a batch of magic {data[at + _MAGIC_AT]}; only {KAFKA_MAGIC} is known")
    if not at + BATCH_HEAD_BYTES <= end <= stop:
        raise ValueError(f"a batch of {WIRE_LENGTH_END + int(inner)} bytes in {stop - at}")
    return end


def size_as_entry(data: Buffer, at: int, end: int) -> int:
    """Return the bytes of the entry of a batch: no fewer than the messages that it says it has."""
    (last_delta,) = _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)
    return max(end - at, int(last_delta) + 1)


def entry_of_wire_batch(data: Buffer, at: int, end: int) -> bytes:
    """Return the batch ``data[at:end]`` of the wire, see ``wire_batch_end``, as an entry. Nothing of it is verified.

    Its leader epoch is that of a log without replication, whatever the producer sent.

    Raises ValueError for a number of the last message below 0 or so large that the entry would be a multiple of its
    bytes: no producer sends that, and the pad would be allocated for it.
    """
    (last_delta,) = _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)
    size = end - at
    if not 0 <= last_delta < MOST_MESSAGES:
        raise ValueError(f"a batch whose last message has number {last_delta}")
    pad = max(0, int(last_delta) + 1 - size)
    (inner,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    start = batch_start(size + pad, inner, NO_LEADER_EPOCH)
    return b"".join((start, data[at + _MAGIC_AT : end], bytes(pad)))


def wire_size(data: Buffer, at: int) -> int:
    """Return the bytes that the batch at ``at``, an entry, takes on the wire: the pad is not sent."""
    return batch_head(data, at).records_end


def base_offset_of(data: Buffer, at: int, position: int) -> bytes:
    """Return the first eight bytes on the wire of the batch at ``at``, an entry that begins at ``position``."""
    head = batch_head(data, at)
    end = position + 4 + head.length
    return _BASE_OFFSET.pack(end - head.last_delta - 1)


def encode_wire_batch(
    records: bytes, count: int, base_offset: int, last_delta: int, base_time: int, max_time: int
) -> bytes:
    """Return a batch on the wire around encoded records, of no idempotent producer and no leader epoch.

    Offsets may leave numbers out: ``last_delta`` is the last one that the batch takes, less ``base_offset``.
    """
    fields = BATCH_FIELDS.pack(0, last_delta, base_time, max_time, -1, -1, -1, count)
    inner = BATCH_HEAD_BYTES - WIRE_LENGTH_END + len(records)
    crc = crc32c(records, crc32c(fields))
    return b"".join((WIRE_HEAD.pack(base_offset, inner, -1, KAFKA_MAGIC, crc), fields, records))
