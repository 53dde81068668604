"""Kafka's Produce: its batches as entries, appended as those of native produce requests are."""

from __future__ import annotations

from typing import Any

from attrs import define

from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.kafka.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from logd.broker.kafka.produce_request import CheckedPart, KafkaProduceRequest, RefusedRecords
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.produce import ProduceRequests
from logd.broker.security.rights import Rights
from logd.errors import WrapperTooLarge
from logd.net.server import Connection
from logd.protocol.batch_layout import APPEND_TIME, BATCH_CODEC_MASK, BatchHead, batch_head
from logd.protocol.checksums import crc32c
from logd.protocol.codecs import BATCH_CODEC_NAMES
from logd.protocol.kafka.message_sets import MESSAGE_SET_ERRORS, TooManyMessages, batch_of_message_set
from logd.protocol.kafka.produce import KafkaProduce, KafkaProducedPart, KafkaProducePart
from logd.protocol.kafka.wire_batches import (
    CHECKED_FROM,
    CHECKSUM,
    CHECKSUM_AT,
    entry_of_wire_batch,
    wire_batch_end,
)

#: The place of the magic in the records of all versions.
_MAGIC_AT = 16
_BATCH_MAGIC = 2
#: The marks of control batches and of transactions in the attributes of a batch.
_NO_DATA = ~(BATCH_CODEC_MASK | APPEND_TIME)


@define(eq=False)
class _Answering:
    """The connection as the handlers of native requests see it; a Produce with acks 0 has a token that is not sent."""

    _connection: Connection

    def answer(self, token: Any, parts: tuple[KafkaProducedPart, ...]) -> None:
        if token is not None:
            if self._connection.meter is not None:
                token.throttle_ms = self._connection.meter.throttle_ms()
            self._connection.answer(token, parts)
            return
        refused = next((part for part in parts if part.error), None)
        if refused is not None:
            self._connection.close(
                f"its records for topic {refused.topic!r}, partition {refused.partition}, were refused "
                f"({refused.message}), and with acks=0 the end of the connection is the only sign of that"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class KafkaProducing:
    """The Produce requests of one connection."""

    def __init__(self, broker: BrokerCore, connection: Connection, rights: Rights) -> None:
        self._idempotence: Idempotence = broker.idempotence
        self._connection = _Answering(connection)
        answering: Any = self._connection
        #: The handler of native requests; it also says what has to wait.
        self.native = ProduceRequests(broker, answering, rights)
        self.native.latency = broker.counters.latencies.of("kafka", "Produce")

    def produce(self, request: KafkaProduce, token: Any) -> bool:
        """Take a request; return False if it has to wait."""
        parts: Any = [_checked(part) for part in request.parts]
        acks = request.acks or 1  # with acks 0 the outcome is not sent, but a refusal closes the connection
        return self.native.begin(
            KafkaProduceRequest(self.native, parts, token, acks, request.timeout_ms, self._idempotence)
        )


def _checked(part: KafkaProducePart) -> CheckedPart:
    try:
        entry, head = _entry(part.records)
    except RefusedRecords as error:
        return CheckedPart(part.topic, part.partition, b"", None, error)
    return CheckedPart(part.topic, part.partition, entry, head)


def _entry(records: bytes | memoryview | None) -> tuple[bytes, BatchHead]:
    """Return the records as an entry, checked as native sets are, and its head. Raises RefusedRecords."""
    if not records:
        raise RefusedRecords(INVALID_RECORD, "there are no records")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < _BATCH_MAGIC:
        try:
            entry = batch_of_message_set(bytes(records))
        except (WrapperTooLarge, TooManyMessages) as error:
            raise RefusedRecords(RECORD_LIST_TOO_LARGE, str(error)) from None
        except MESSAGE_SET_ERRORS as error:
            raise RefusedRecords(CORRUPT_MESSAGE, str(error)) from None
        return entry, batch_head(entry)
    try:
        end = wire_batch_end(records, 0, len(records))
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
