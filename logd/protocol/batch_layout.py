"""The layout of a batch, the entry of magic 3: a record batch of Kafka, with one checksum for all its messages.

    batch   := int32 N | 03 | uint24 check | int32 L | int32 leader_epoch | 02 | uint32 crc32c | int16 attributes
               | int32 last_delta | int64 base_time | int64 max_time | int64 producer_id | int16 producer_epoch
               | int32 base_sequence | int32 count | records | pad

It is Kafka's record batch (magic 2 there) with its base offset replaced by N, 03 and check: the low 24 bits of CRC-32
over the bytes 0 to 4 and 8 to 16, which crc32c leaves out. crc32c covers the bytes from the attributes to the end of
the records, at 12 + L. The pad consists of as many zero bytes as the entry needs to have a byte for each message. A
broker changes only the bytes 0 to 7 and 12 to 15. logd.protocol.entry has the other magics, and the table of all.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.checksums import CHECKSUMS, CRC32, Checksums, crc32, crc32c

Buffer = bytes | memoryview

BATCH = 3
#: N, magic (the high byte) with check, and the other fields of a batch.
BATCH_HEAD = Struct(">iIiiBIhiqqqhii")
BATCH_HEAD_BYTES = BATCH_HEAD.size
#: The fields that crc32c covers.
BATCH_FIELDS = Struct(">hiqqqhii")
BATCH_FIELDS_AT = BATCH_HEAD_BYTES - BATCH_FIELDS.size
_LENGTH_BYTES = 4
_MAGIC_AT = _LENGTH_BYTES
_INNER_LENGTH = Struct(">i")
_CHECKSUM_AT = BATCH_FIELDS_AT - 4
#: The place of L, and the index behind the last byte of a batch with L = 0.
_INNER_LENGTH_AT = _LENGTH_BYTES + 4
_BEHIND_INNER_LENGTH = _INNER_LENGTH_AT + 4
_CHECK_BITS = 0xFFFFFF
_LEAST_INNER_LENGTH = BATCH_HEAD_BYTES - _BEHIND_INNER_LENGTH
#: Kafka's own number for this format of record batches.
_KAFKA_MAGIC = 2
BATCH_CODEC_MASK = 7
#: Producer id, producer epoch and base sequence of a batch that no idempotent producer sent.
NO_PRODUCER = (-1, -1, -1)
#: The leader epoch of a batch before there is replication.
NO_LEADER_EPOCH = -1
#: Of the attributes of a batch: each message has the time of appending, which is max_time.
APPEND_TIME = 0x08


class BatchHead(NamedTuple):
    """The fields of a batch that readers need."""

    #: N: the bytes behind the length prefix, pad included.
    length: int
    #: Bytes of the fields and records behind L, pad excluded.
    inner_length: int
    leader_epoch: int
    attributes: int
    #: The number of the last message, counted from 0.
    last_delta: int
    #: In ms; -1 for none.
    base_time: int
    max_time: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    #: The number of messages. Compaction can leave fewer than last_delta + 1.
    messages: int

    @property
    def records_end(self) -> int:
        """The index behind the records, counted from the first byte of N."""
        return _BEHIND_INNER_LENGTH + self.inner_length

    @property
    def codec(self) -> int:
        """The number of the codec of the records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & BATCH_CODEC_MASK


def batch_head(data: Buffer, at: int = 0) -> BatchHead:
    """Return the head of the batch at ``at``, unverified; the data hold at least BATCH_HEAD_BYTES there."""
    length, _, inner, epoch, _, _, *fields = BATCH_HEAD.unpack_from(data, at)
    return BatchHead(length, inner, epoch, *fields)


def _batch_check(data: Buffer, at: int, checksums: Checksums = CHECKSUMS) -> int:
    crc = checksums[CRC32]
    return crc(data[at + _INNER_LENGTH_AT : at + _CHECKSUM_AT], crc(data[at : at + _MAGIC_AT + 1])) & _CHECK_BITS


def check_batch_head(data: Buffer, at: int, checksums: Checksums = CHECKSUMS) -> None:
    """Raise ValueError if the head of the batch at ``at`` is damaged, or its lengths do not fit each other."""
    length, magic_and_check, inner, _, kafka_magic, *_ = BATCH_HEAD.unpack_from(data, at)
    if magic_and_check & _CHECK_BITS != _batch_check(data, at, checksums):
        raise ValueError("checksum mismatch in the head of a batch")
    if kafka_magic != _KAFKA_MAGIC:
        raise ValueError(f"a batch of Kafka's magic {kafka_magic}; only {_KAFKA_MAGIC} is known")
    if not _LEAST_INNER_LENGTH <= inner <= length - (_BEHIND_INNER_LENGTH - _LENGTH_BYTES):
        raise ValueError(f"a batch with {inner} bytes of fields and records in an entry of length {length}")


def batch_checked_to(data: Buffer, at: int) -> int:
    """Return the index behind the last byte of the batch at ``at`` that crc32c covers."""
    return at + _BEHIND_INNER_LENGTH + int(_INNER_LENGTH.unpack_from(data, at + _INNER_LENGTH_AT)[0])


def batch_own_size(data: Buffer, at: int = 0) -> int:
    """Return the size that a producer gives to a batch with these records; compaction may have left more pad."""
    head = batch_head(data, at)
    return max(head.records_end, head.last_delta + 1)


def encode_batch_entry(
    records: bytes, count: int, base_time: int, max_time: int, codec: int = 0, leader_epoch: int = -1
) -> bytes:
    """Return a batch of ``count`` messages around their encoded, perhaps compressed, records.

    ``codec`` is the number in a batch's attributes. Producer id, epoch and sequence are -1: no idempotent producer.
    """
    fields = BATCH_FIELDS.pack(codec, count - 1, base_time, max_time, *NO_PRODUCER, count)
    end = BATCH_HEAD_BYTES + len(records)
    pad = bytes(max(0, count - end))
    inner = end - _BEHIND_INNER_LENGTH
    crc = crc32c(records, crc32c(fields))
    head = _pack_batch_start(end + len(pad) - _LENGTH_BYTES, inner, leader_epoch, crc)
    return b"".join((head, fields, records, pad))


_START = Struct(">iIiiBI")
_FIRST = Struct(">iB")
_COVERED = Struct(">iiB")
_ENTRY_START = Struct(">iI")


def _pack_batch_start(length: int, inner_length: int, leader_epoch: int, crc: int) -> bytes:
    """Return the bytes of a batch before its fields."""
    covered = _COVERED.pack(inner_length, leader_epoch, _KAFKA_MAGIC)
    check = crc32(covered, crc32(_FIRST.pack(length, BATCH))) & _CHECK_BITS
    return _START.pack(length, BATCH << 24 | check, inner_length, leader_epoch, _KAFKA_MAGIC, crc)


def batch_start(size: int, inner_length: int, leader_epoch: int) -> bytes:
    """Return the bytes before Kafka's magic of an entry of ``size`` bytes around a batch."""
    covered = _COVERED.pack(inner_length, leader_epoch, _KAFKA_MAGIC)
    length = size - _LENGTH_BYTES
    check = crc32(covered, crc32(_FIRST.pack(length, BATCH))) & _CHECK_BITS
    return _ENTRY_START.pack(length, BATCH << 24 | check) + covered[:-1]


def with_leader_epoch(batch: bytes, leader_epoch: int) -> bytes:
    """Return a sound batch with another leader epoch: the bytes 5 to 7 and 12 to 15 change, nothing else."""
    length, _, inner, _, _, crc, *_ = BATCH_HEAD.unpack_from(batch)
    return _pack_batch_start(length, inner, leader_epoch, crc) + batch[BATCH_FIELDS_AT:]


def without_producer(batch: bytes) -> bytes:
    """Return a sound batch with the producer id, epoch and sequence of no producer: those 14 bytes and crc32c change.

    For programs that write a batch into another log: the sequences belong to the first one (docs/protocol.md).
    """
    length, _, inner, epoch, _, _, attributes, delta, base, newest, *_, count = BATCH_HEAD.unpack_from(batch)
    fields = BATCH_FIELDS.pack(attributes, delta, base, newest, *NO_PRODUCER, count)
    covered = batch[BATCH_HEAD_BYTES : _BEHIND_INNER_LENGTH + inner]
    head = _pack_batch_start(length, inner, epoch, crc32c(covered, crc32c(fields)))
    return head + fields + batch[BATCH_HEAD_BYTES:]


def set_with_leader_epoch(message_set: bytes, leader_epoch: int) -> bytes:
    """Return a checked set with another leader epoch in each of its batches; its other entries stay as they are."""
    pieces = []
    at = 0
    while at < len(message_set):
        stop = at + _LENGTH_BYTES + int(_INNER_LENGTH.unpack_from(message_set, at)[0])
        entry = message_set[at:stop]
        pieces.append(with_leader_epoch(entry, leader_epoch) if entry[_MAGIC_AT] == BATCH else entry)
        at = stop
    return b"".join(pieces)
