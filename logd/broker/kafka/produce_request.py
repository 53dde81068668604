"""A Produce of Kafka under way: the states of a native one, with Kafka's errors and the sequences of its producers."""

from __future__ import annotations

from typing import Any, NamedTuple

from attrs import define, field

from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.kafka.error_codes import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    kafka_code,
    partition_code,
)
from logd.broker.requests.produce_request import AcknowledgedProduceRequest
from logd.errors import BrokerStopping, MessageTooLarge, RequestTimedOut, WireError
from logd.log.partition import PartitionLog
from logd.log.producers.states import (
    OldProducerEpoch,
    SequencedBatch,
    SequenceGap,
    SequenceProblem,
    SequenceTooOld,
)
from logd.net.session import PauseReason
from logd.protocol import loops
from logd.protocol.batch_layout import BatchHead, set_with_leader_epoch
from logd.protocol.kafka.legacy_entries import NoLegacyForm, legacy_entries
from logd.protocol.kafka.produce import KafkaProducedPart
from logd.protocol.requests.produce_ack import ProducedPart

#: Kafka's leader epoch has no meaning before there is replication.
_LEADER_EPOCH = 0
_CODES: dict[type[SequenceProblem], int] = {
    SequenceGap: OUT_OF_ORDER_SEQUENCE_NUMBER,
    SequenceTooOld: DUPLICATE_SEQUENCE_NUMBER,
    OldProducerEpoch: INVALID_PRODUCER_EPOCH,
}


class RefusedRecords(WireError):
    """Records that cannot be stored; ``kafka_code`` is Kafka's number for the reason."""

    def __init__(self, kafka_code: int, text: str) -> None:
        super().__init__(text)
        self.kafka_code = kafka_code


class CheckedPart(NamedTuple):
    """A batch for one partition as it will be stored, with its head; both are None where it is refused."""

    topic: str
    partition: int
    message_set: bytes
    head: BatchHead | None
    refusal: WireError | None = None


@define(eq=False)
class _Noted:
    """What the answer needs of each part beside its place in the log, by the part's index."""

    #: Where an error is the answer: Kafka's code and a text.
    errors: dict[int, tuple[int, str]] = field(factory=dict)
    #: The offset of the first message less the id of the set.
    shifts: dict[int, int] = field(factory=dict)


@define(eq=False)
class KafkaProduceRequest(AcknowledgedProduceRequest):
    """The batches of one Produce, which are checked already. Answered with a KafkaProducedPart for each."""

    _idempotence: Idempotence
    _noted: _Noted = field(factory=_Noted, init=False)

    def _sets_are_checked(self) -> bool:
        return True

    def _gather_part(self, index: int, part: Any) -> bool:
        producing = self._producing
        if producing.stopping:
            raise BrokerStopping("the broker is stopping")
        if self._acks not in (-1, 0, 1):
            raise RefusedRecords(INVALID_REQUIRED_ACKS, f"acks={self._acks} is not allowed; allowed is -1, 0 or 1")
        if part.refusal is not None:
            raise part.refusal
        log = producing.log_for(part.topic, part.partition)
        log.leadership.check_produce(_LEADER_EPOCH, self._acks)
        if log.replica is not None:
            log.replica.check_produce(self._acks)
        message_set, head = part.message_set, part.head
        message_bytes, batch_bytes, legacy = log.settings.entry_limits
        if len(message_set) > batch_bytes:
            raise MessageTooLarge(
                f"a batch of {len(message_set)} bytes; {batch_bytes} are allowed (batch.bytes, Kafka's "
                "max.message.bytes)"
            )
        if legacy:
            try:
                message_set, first_bytes = legacy_entries(message_set)
            except NoLegacyForm as error:
                raise RefusedRecords(INVALID_RECORD, str(error)) from None
            loops.check_set(message_set, message_bytes, batch_bytes, legacy)
            self._noted.shifts[index] = first_bytes - 1
        else:
            if producing.waits_for_format():
                return False
            self._noted.shifts[index] = len(message_set) - head.last_delta - 1
            if log.replica is not None:
                message_set = set_with_leader_epoch(message_set, log.leadership.epoch)
        batch = SequencedBatch.of(head)
        if batch is None:
            self._append(index, part, log, message_set, None)
            return True
        return self._gather_once(index, part, log, message_set, batch)

    def _gather_once(
        self, index: int, part: CheckedPart, log: PartitionLog, message_set: bytes, batch: SequencedBatch
    ) -> bool:
        """Gather a batch of an idempotent producer unless it is stored already. Return False if it has to wait."""
        known = self._idempotence
        states = known.of(log)
        if states is None:
            connection = self._producing.connection
            connection.pause(PauseReason.PRODUCERS)
            known.load(log, lambda: connection.resume(PauseReason.PRODUCERS))
            return False
        try:
            end = states.find(batch)
        except SequenceProblem as error:
            code = _CODES.get(type(error))
            if code is None:
                raise RequestTimedOut(str(error)) from None
            raise RefusedRecords(code, f"{part.topic}-{part.partition}: {error}") from None
        known.used(states, batch.producer)
        if end is not None:
            self._stored(index, part, log, end - len(message_set), end)
        else:
            states.begin(batch, known.now_ms())
            self._append(index, part, log, message_set, batch)
        return True

    def _append(
        self, index: int, part: CheckedPart, log: PartitionLog, message_set: bytes, batch: SequencedBatch | None
    ) -> None:
        states = None if batch is None else self._idempotence.of(log)
        assert part.head is not None  # it is not refused

        def appended(first: int, after: int) -> None:
            if states is not None and batch is not None:
                states.appended(batch, after)
            count = self._producing.routing.counters.kafka.audit
            if count is not None:
                count(part.topic, log.partition, first, message_set)
            self._stored(index, part, log, first, after)

        def not_appended(error: BaseException) -> None:
            if states is not None and batch is not None:
                states.not_appended(batch)
            self._refuse_part(index, part, error)

        head = part.head
        self._producing.appender.add_told(log, message_set, head.messages, head.max_time, appended, not_appended)

    def _stored(self, index: int, part: CheckedPart, log: PartitionLog, first: int, after: int) -> None:
        self._settled_append(index, ProducedPart(part.topic, part.partition, 0, log.partition, first, after), log)

    def _refuse_part(self, index: int, part: Any, error: BaseException) -> None:
        self._note(index, part.topic, part.partition, error)
        AcknowledgedProduceRequest._refuse_part(self, index, part, error)

    def not_flushed(self, index: int, asked: ProducedPart, error: BaseException) -> None:
        """See AcknowledgedProduceRequest."""
        self._note(index, asked.topic, asked.partition, error)
        AcknowledgedProduceRequest.not_flushed(self, index, asked, error)

    def _note(self, index: int, topic: str, partition: int, error: BaseException) -> None:
        if isinstance(error, RefusedRecords):
            code = error.kafka_code
        elif isinstance(error, WireError):
            code = partition_code(self._producing.routing.topics, topic, partition, error)
        else:
            code = kafka_code(error)
        self._noted.errors[index] = code, str(error)

    def _response(self) -> Any:
        answers = []
        for index, part in enumerate(self._results):
            assert part is not None  # the request is answered once all are settled
            log = self._producing.routing.logs.log(part.topic, part.partition)
            start = -1 if log is None else log.first
            if part.error:
                code, text = self._noted.errors.get(index, (kafka_code(RequestTimedOut("")), "not flushed in time"))
                self._producing.routing.counters.kafka.failed("Produce", code)
                answers.append(KafkaProducedPart(part.topic, part.partition, code, -1, start, text))
            else:
                offset = part.first_id + self._noted.shifts[index]
                answers.append(KafkaProducedPart(part.topic, part.partition, 0, offset, start))
        return tuple(answers)
