"""A Produce of Kafka under way: the states of a native one, with Kafka's errors and the sequences of its producers."""

from __future__ import annotations

import math
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

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
from logd.broker.kafka.record_check import RefusedRecords, entry_of_records
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
from logd.protocol.kafka.produce import KafkaProducedPart, KafkaProducePart, ProducedEncoder
from logd.protocol.requests.produce_ack import ProducedPart

_log = Logger()

#: Before records of this size it is asked whether the turn is over: a MiB of messages of old versions, of which a batch
#: is made, takes 25 to 90 ms.
LARGE_RECORDS_BYTES = 4 << 10
#: Parts that are answered in one turn; the answer to more takes several.
TURN_PARTS = 500
#: The most messages of a batch of which messages of 0.7 are made, one by one: some 0.1 s. Kafka's producers divide a
#: batch that is too large.
MOST_LEGACY_MESSAGES = 100_000
#: Kafka's leader epoch has no meaning before there is replication.
_LEADER_EPOCH = 0
_CODES: dict[type[SequenceProblem], int] = {
    SequenceGap: OUT_OF_ORDER_SEQUENCE_NUMBER,
    SequenceTooOld: DUPLICATE_SEQUENCE_NUMBER,
    OldProducerEpoch: INVALID_PRODUCER_EPOCH,
}


@define(eq=False)
class _Noted:
    """The things that the answer needs beside the places of parts in their logs; of each part by its index."""

    #: The parts that are answered with an error: Kafka's code and a text.
    errors: dict[int, tuple[int, str]] = field(factory=dict)
    #: The offset of the first message less the id of the set.
    shifts: dict[int, int] = field(factory=dict)
    #: The answer that is being made, in several turns.
    answering: Deferred[None] | None = None


@define(eq=False)
class KafkaProduceRequest(AcknowledgedProduceRequest):
    """The batches of one Produce. Answered with a KafkaProducedPart for each, of many in several turns."""

    _idempotence: Idempotence
    _noted: _Noted = field(factory=_Noted, init=False)

    def cancel(self) -> None:
        """See ProduceRequest."""
        AcknowledgedProduceRequest.cancel(self)
        if self._noted.answering is not None:
            self._noted.answering.cancel()

    def _sets_are_checked(self) -> bool:
        return True  # each when it is gathered: there is one batch for a partition

    def _gather_part(self, index: int, part: Any) -> bool:
        producing = self._producing
        # The first part of a turn is taken in any case.
        if index > self._next and len(part.records or b"") >= LARGE_RECORDS_BYTES and producing.ends_turn():
            return False
        if producing.stopping:
            raise BrokerStopping("the broker is stopping")
        if self._acks not in (-1, 0, 1):
            raise RefusedRecords(INVALID_REQUIRED_ACKS, f"acks={self._acks} is not allowed; allowed is -1, 0 or 1")
        log = producing.log_for(part.topic, part.partition)
        log.leadership.check_produce(_LEADER_EPOCH, self._acks)
        if log.replica is not None:
            log.replica.check_produce(self._acks)
        message_bytes, batch_bytes, legacy = log.settings.entry_limits
        message_set, head = entry_of_records(part.records, batch_bytes)
        if legacy:
            if head.messages > MOST_LEGACY_MESSAGES:
                text = f"a batch of {head.messages} messages in a topic for clients of 0.7 (message.format = 0.7)"
                raise MessageTooLarge(f"{text}; {MOST_LEGACY_MESSAGES} are allowed")
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
            self._append(index, part, log, message_set, head, None)
            return True
        return self._gather_once(index, part, log, message_set, head, batch)

    def _gather_once(
        self,
        index: int,
        part: KafkaProducePart,
        log: PartitionLog,
        message_set: bytes,
        head: BatchHead,
        batch: SequencedBatch,
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
            self._append(index, part, log, message_set, head, batch)
        return True

    def _append(
        self,
        index: int,
        part: KafkaProducePart,
        log: PartitionLog,
        message_set: bytes,
        head: BatchHead,
        batch: SequencedBatch | None,
    ) -> None:
        states = None if batch is None else self._idempotence.of(log)

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

        self._producing.appender.add_told(log, message_set, head.messages, head.max_time, appended, not_appended)

    def _stored(self, index: int, part: KafkaProducePart, log: PartitionLog, first: int, after: int) -> None:
        self._settled_append(index, ProducedPart(part.topic, part.partition, 0, log.partition, first, after), log)

    def _refuse_part(self, index: int, part: Any, error: BaseException) -> None:
        self._note(index, part.topic, part.partition, error)
        AcknowledgedProduceRequest._refuse_part(self, index, part, error)

    def _lose_part(self, index: int, error: BaseException) -> None:
        asked = self._results[index]
        assert asked is not None
        self._note(index, asked.topic, asked.partition, error)
        AcknowledgedProduceRequest._lose_part(self, index, error)

    def _mark_broken(self, topic: str, partition: int) -> None:
        """Refuse nothing because of this: Kafka's producers keep the order by their sequences, and restart nothing."""

    def _note(self, index: int, topic: str, partition: int, error: BaseException) -> None:
        if isinstance(error, RefusedRecords):
            code = error.kafka_code
        elif isinstance(error, WireError):
            code = partition_code(self._producing.routing.topics, topic, partition, error)
        else:
            code = kafka_code(error)
        self._noted.errors[index] = code, str(error)

    def _send_answer(self) -> None:
        count = len(self._results)
        if count <= TURN_PARTS:
            parts = tuple([self._produced(index) for index in range(count)])
            self._producing.connection.answer(self._token, parts)
            return
        self._producing.unanswered.watch(self, math.inf)  # to be cancelled with its connection
        self._noted.answering = Deferred.fromCoroutine(self._answer_in_turns())
        self._noted.answering.addErrback(self._not_answered)

    async def _answer_in_turns(self) -> None:
        """Answer a request that has many parts: each takes some microseconds."""
        turns, token = self._producing.turns(), self._token
        encoder = None if token is None else ProducedEncoder(token.header.version)
        parts: tuple[KafkaProducedPart, ...] = ()
        for index in range(len(self._results)):
            if turns.over:
                await turns.rest()
            part = self._produced(index)
            if encoder is not None:
                encoder.add(part)
            elif part.error:
                parts = (part,)
                break
        self._producing.unanswered.forget(self)
        self._producing.connection.answer(token, encoder or parts)

    def _not_answered(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            _log.failure("a Produce could not be answered; closing its connection", failure)
            self._producing.connection.close(drain=False)

    def _produced(self, index: int) -> KafkaProducedPart:
        part = self._results[index]
        assert part is not None  # the request is answered once all are settled
        routing = self._producing.routing
        if part.error:
            code, text = self._noted.errors.get(index, (kafka_code(RequestTimedOut("")), "not flushed in time"))
            routing.counters.kafka.failed("Produce", code)
            return KafkaProducedPart(part.topic, part.partition, code, message=text)
        log = routing.logs.log(part.topic, part.partition)
        start = -1 if log is None else log.first
        offset = part.first_id + self._noted.shifts[index]
        return KafkaProducedPart(part.topic, part.partition, 0, offset, start)
