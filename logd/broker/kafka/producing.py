"""Kafka's Produce: its batches as entries, appended by the handlers of native produce requests."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logd.broker.kafka.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    kafka_code_of,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.produce import ProduceRequests
from logd.net.server import Connection
from logd.protocol.batch_layout import batch_head, without_producer
from logd.protocol.kafka.produce import KafkaProduce, KafkaProducedPart, KafkaProducePart
from logd.protocol.kafka.wire_batches import entry_of_wire_batch, wire_batch_end
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart

#: The place of the magic in the records of all versions.
_MAGIC_AT = 16


class RefusedRecords(Exception):
    """Records that cannot be stored; ``code`` is Kafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@define(eq=False)
class _Answering:
    """The connection as the handlers of native requests see it: their answers become Kafka's."""

    _connection: Connection
    _answer: Any

    def answer(self, token: Any, response: Any) -> None:
        self._answer(token, response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@define(eq=False)
class _ProduceUnderWay:
    """A Produce under way: the answers that are known, and for each part that is not, its first offset less its id."""

    token: Any
    answers: list[KafkaProducedPart | None]
    #: The offset of the first message less the id of the set, of the parts without an answer, in order.
    shifts: list[int] = field(factory=list)


class KafkaProducing:
    """The Produce requests of one connection."""

    def __init__(self, broker: BrokerCore, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        answering: Any = _Answering(connection, self._answered)
        #: The handler of native requests; it also says what has to wait.
        self.native = ProduceRequests(broker, answering)

    def produce(self, request: KafkaProduce, token: Any) -> bool:
        """Take a request; return False if it has to wait."""
        asked = _ProduceUnderWay(token, [])
        parts = []
        for part in request.parts:
            try:
                message_set, shift = _entries(part)
            except RefusedRecords as error:
                self._broker.counters.kafka.failed("Produce", error.code)
                refusal = KafkaProducedPart(part.topic, part.partition, error.code, message=str(error))
                asked.answers.append(refusal)
                continue
            asked.answers.append(None)
            asked.shifts.append(shift)
            parts.append(ProducePart(part.topic, part.partition, 0, True, message_set))
        if not parts:
            if token is not None:
                self._connection.answer(token, tuple(asked.answers))
            return True
        return self.native.produce_ack(ProduceAck(request.acks, request.timeout_ms, tuple(parts)), asked)

    def _answered(self, asked: _ProduceUnderWay, response: ProduceAckResponse) -> None:
        produced, shifts = iter(response.parts), iter(asked.shifts)
        answers = []
        for known in asked.answers:
            if known is None:
                part, shift = next(produced), next(shifts)
                code = kafka_code_of(part.error)
                if code:
                    self._broker.counters.kafka.failed("Produce", code)
                offset = -1 if part.error else part.first_id + shift
                log = self._broker.store.log(part.topic, part.stored_partition)
                start = -1 if log is None else log.start
                known = KafkaProducedPart(part.topic, part.partition, code, offset, start)
            answers.append(known)
        self._connection.answer(asked.token, tuple(answers))


def _entries(part: KafkaProducePart) -> tuple[bytes, int]:
    """Return the records as a message set, and the offset of its first message less the id of the set.

    Raises RefusedRecords.
    """
    records = part.records
    if not records:
        raise RefusedRecords(INVALID_RECORD, "there are no records")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < 2:
        raise RefusedRecords(UNSUPPORTED_FOR_MESSAGE_FORMAT, "message sets of old clients are not taken yet")
    entries = []
    at, stop = 0, len(records)
    try:
        while at < stop:
            end = wire_batch_end(records, at, stop)
            entry = entry_of_wire_batch(records, at, end)
            entries.append(without_producer(entry) if batch_head(entry).producer_id != -1 else entry)
            at = end
    except ValueError as error:
        raise RefusedRecords(CORRUPT_MESSAGE, str(error)) from None
    first = entries[0]
    return b"".join(entries), len(first) - batch_head(first).last_delta - 1
