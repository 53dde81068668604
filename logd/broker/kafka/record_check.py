"""The check of the records of a Produce of Kafka, and the entry that is stored of them."""

from __future__ import annotations

from logd.broker.kafka.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from logd.errors import MessageTooLarge, WireError, WrapperTooLarge
from logd.protocol.batch_layout import APPEND_TIME, BATCH_CODEC_MASK, BatchHead, batch_head
from logd.protocol.checksums import crc32c
from logd.protocol.codecs import BATCH_CODEC_NAMES
from logd.protocol.kafka.message_sets import MESSAGE_SET_ERRORS, TooManyMessages, batch_of_message_set
from logd.protocol.kafka.wire_batches import (
    CHECKED_FROM,
    CHECKSUM,
    CHECKSUM_AT,
    entry_of_wire_batch,
    size_as_entry,
    wire_batch_end,
)

#: The place of the magic in the records of all versions.
_MAGIC_AT = 16
_BATCH_MAGIC = 2
#: The marks of control batches and of transactions in the attributes of a batch.
_NO_DATA = ~(BATCH_CODEC_MASK | APPEND_TIME)


class RefusedRecords(WireError):
    """Records that cannot be stored; ``kafka_code`` is Kafka's number for the reason."""

    def __init__(self, kafka_code: int, text: str) -> None:
        super().__init__(text)
        self.kafka_code = kafka_code


def entry_of_records(records: bytes | memoryview | None, most_bytes: int) -> tuple[bytes, BatchHead]:
    """Return the records as an entry, checked as native sets are, and its head.

    Raises RefusedRecords, and MessageTooLarge for an entry of more than ``most_bytes``.
    """
    if not records:
        raise RefusedRecords(INVALID_RECORD, "there are no records")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < _BATCH_MAGIC:
        try:
            entry = batch_of_message_set(bytes(records))
        except (WrapperTooLarge, TooManyMessages) as error:
            raise RefusedRecords(RECORD_LIST_TOO_LARGE, str(error)) from None
        except MESSAGE_SET_ERRORS as error:
            raise RefusedRecords(CORRUPT_MESSAGE, str(error)) from None
        _check_size(len(entry), most_bytes)
        return entry, batch_head(entry)
    try:
        end = wire_batch_end(records, 0, len(records))
        _check_size(size_as_entry(records, 0, end), most_bytes)
        entry = entry_of_wire_batch(records, 0, end)
    except ValueError as error:
        raise RefusedRecords(CORRUPT_MESSAGE, str(error)) from None
    if end != len(records):
        raise RefusedRecords(INVALID_RECORD, "more than one batch for a partition in one request")
    if crc32c(records[CHECKED_FROM:end]) != CHECKSUM.unpack_from(records, CHECKSUM_AT)[0]:
        raise RefusedRecords(CORRUPT_MESSAGE, "the checksum of a batch does not hold")
    head = batch_head(entry)
    if head.codec not in BATCH_CODEC_NAMES:
        raise RefusedRecords(UNSUPPORTED_COMPRESSION_TYPE, f"codec {head.codec} is not known")
    if head.attributes & _NO_DATA:
        raise RefusedRecords(INVALID_RECORD, "a batch of a transaction, or a control batch; there are no transactions")
    if head.messages != head.last_delta + 1:
        text = f"a batch of {head.messages} records, the last with number {head.last_delta}"
        raise RefusedRecords(INVALID_RECORD, text)
    if head.producer_id >= 0 and (head.producer_epoch < 0 or head.base_sequence < 0):
        text = f"a batch of producer {head.producer_id} with epoch {head.producer_epoch}, {head.base_sequence}"
        raise RefusedRecords(INVALID_RECORD, text)
    return entry, head


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise MessageTooLarge(
            f"a batch of {size} bytes; {most_bytes} are allowed (batch.bytes, Kafka's max.message.bytes)"
        )
