"""Applications that produce to a replicated topic, and what they were told."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define, field
from kafka.protocol.producer import ProduceRequest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.errors import BrokerUnavailable
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_FIELDS
from logd.protocol.checksums import crc32c
from logd.protocol.kafka.wire_batches import wire_size
from logd.protocol.message import Message
from logd.testing.memory.broker import KAFKA_PORT
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.kafka.link import KafkaLink
from tests.simulation.replication.cluster import TOPIC, ReplicatedCluster
from tests.simulation.violation import Violation, check

#: Messages of each producer.
MESSAGES = 100
#: Mean seconds between two messages, unless others are given.
PACE = 0.3
#: Bytes of an entry before a batch as it is on the wire.
_ENTRY_START = 8
#: The place in a batch on the wire at which the fields behind its checksum begin.
_FIELDS_AT = 21
_PRODUCER = 77


@define(eq=False)
class Producing:
    """A producer of logd that sends one message after another, with ``acks`` 1, more, or -1."""

    cluster: ReplicatedCluster
    host: str
    acks: int
    #: The mean seconds between two messages.
    pace: float = PACE
    random: Random = field(init=False)
    #: The payloads that were acknowledged.
    acknowledged: set[bytes] = field(factory=set, init=False)
    sent: int = field(default=0, init=False)
    unanswered: int = field(default=0, init=False)
    over: bool = field(default=False, init=False)
    #: The position of the last message acknowledged, by partition, and its number.
    _last: dict[int, tuple[int, int]] = field(factory=dict, init=False)
    _producer: Producer = field(init=False)

    def __attrs_post_init__(self) -> None:
        world = self.cluster.world
        self.random = world.random(self.host)
        self._producer = Producer(
            [broker.address for broker in self.cluster.brokers],
            reactor=world.clock,
            connect=world.network.connector(self.host, None, timeout=3.0),
            random=self.random.random,
            acks=self.acks,
            delivery_timeout=3600.0,
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=1.0,
            metadata_age=5.0,
            max_in_flight=self.random.choice([1, 5]),
            format=self.random.choice(["plain", "batch"]),
        )
        world.network.graveyard.append(self._producer)

    def start(self) -> None:
        """Begin to send."""
        self._send()

    def _send(self) -> None:
        if self.sent >= MESSAGES or self.over:
            return
        self.send(self.random.randrange(self.cluster.partitions))
        pause = 0.01 if self.random.random() < 0.3 else 3 * self.pace * self.random.random()
        self.cluster.world.clock.callLater(pause, self._send)

    def send(self, partition: int) -> None:
        """Send one message."""
        self.sent += 1
        self.unanswered += 1
        payload = b"%s/%d/%s" % (self.host.encode(), self.sent, b"x" * self.random.randrange(60))
        sending = self._producer.send(TOPIC, payload, partition=partition)
        sending.addCallbacks(self._stored, self._not_stored, callbackArgs=(payload, self.sent))

    def _stored(self, sent: Sent, payload: bytes, number: int) -> None:
        self.unanswered -= 1
        self.cluster.world.trace.note(self.host, "acknowledged", (number, sent.partition, sent.next_position))
        if self.acks > 1:
            copies = self.cluster.checker.entries.copies_of(sent.partition, sent.next_position, payload)
            check(copies >= self.acks, "a message has too few copies", self.host, self.acks, copies, number, sent)
        if self.acks == -1:
            self.acknowledged.add(payload)
            self.cluster.checker.acknowledge(sent.partition, sent.next_position)
            position, before = self._last.get(sent.partition, (-1, -1))
            check(
                before > number or position < sent.next_position or not self.cluster.checker.keeps,
                "I6: a later message was acknowledged at an earlier position",
                self.host, number, sent, before, position,
            )  # fmt: skip
            if before < number:
                self._last[sent.partition] = sent.next_position, number

    def _not_stored(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: a message was not taken: {failure.value!r}") from failure.value


@define(eq=False)
class IdempotentProducing:
    """A client of Kafka with a producer id: sends each batch again until it is acknowledged, with acks=-1."""

    cluster: ReplicatedCluster
    host: str = "idempotent"
    #: The mean seconds between two batches.
    pace: float = PACE
    random: Random = field(init=False)
    acknowledged: set[bytes] = field(factory=set, init=False)
    sent: int = field(default=0, init=False)
    unanswered: int = field(default=0, init=False)
    over: bool = field(default=False, init=False)
    _clock: ProcessClock = field(init=False)
    _link: KafkaLink | None = field(default=None, init=False)
    _linked: int = field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.cluster.world.random(self.host)
        self._clock = ProcessClock(self.cluster.world.clock)
        self.cluster.world.network.graveyard.append(self)

    def start(self) -> None:
        """Begin to send."""
        Deferred.fromCoroutine(self._run()).addErrback(self._failed)

    async def _run(self) -> None:
        sequence = 0
        while self.sent < MESSAGES // 2 and not self.over:
            await deferLater(self._clock, 4 * self.pace * self.random.random())
            self.sent += 1
            self.unanswered += 1
            payloads = [b"%s/%d.%d" % (self.host.encode(), self.sent, number) for number in range(3)]
            count = self.random.choice([1, 2, 3])
            await self._store(payloads[:count], sequence)
            while self.random.random() < 0.3:  # as if the answer had been lost
                await deferLater(self._clock, 4.0 * self.random.random())
                await self._store(payloads[:count], sequence)
            sequence += count
            self.unanswered -= 1

    async def _store(self, payloads: list[bytes], sequence: int) -> None:
        time = int(self._clock.seconds() * 1000)
        entry = encode_batch([Message(payload, timestamp=time) for payload in payloads])
        records = _of_producer(bytes(8) + entry[_ENTRY_START : _ENTRY_START - 8 + wire_size(entry, 0)], sequence)
        data = ProduceRequest.TopicProduceData
        part = data.PartitionProduceData(index=0, records=records)
        while True:
            request = ProduceRequest[7](
                transactional_id=None, acks=-1, timeout_ms=3000,
                topic_data=[data(name=TOPIC, partition_data=[part])],
            )  # fmt: skip
            try:
                link = await self._leader()
                answer = await link.ask(request)
            except BrokerUnavailable:
                self._linked = -1
            else:
                ((found,),) = [each.partition_responses for each in answer.responses]
                if found.error_code == 0:
                    self._take(payloads, sequence, found.base_offset)
                    return
                refused = found.error_code in {2, 10, 42, 43, 45, 46, 47, 59, 76, 87}
                if refused and not self.cluster.checker.keeps:
                    return  # what an operator has given up may be the batch before
                check(not refused, "I11: a batch of an idempotent producer was refused", sequence, found.error_code)
                self._linked = -1
            await deferLater(self._clock, 0.2 + 0.3 * self.random.random())

    def _take(self, payloads: list[bytes], sequence: int, offset: int) -> None:
        self.cluster.world.trace.note(self.host, "acknowledged", (sequence, offset))
        if offset >= 0:  # -1: a duplicate whose offset is not known any more
            self.cluster.checker.acknowledge(0, offset + len(payloads))
        self.acknowledged.update(payloads)

    async def _leader(self) -> KafkaLink:
        """Return the connection to the broker that leads, as far as the client knows. Raises BrokerUnavailable."""
        if self._linked >= 0 and self._link is not None:
            return self._link
        leader = self.cluster.leader()
        number = self.random.randrange(len(self.cluster.brokers)) if leader is None else leader.settings.id or 0
        former, self._link = self._link, None
        if former is not None and former.transport is not None:
            former.transport.loseConnection()

        def lost() -> None:
            self._linked = -1

        factory = Factory.forProtocol(lambda: KafkaLink(self._clock, lost))
        host = self.cluster.brokers[number].host
        endpoint = self.cluster.world.network.endpoint(self.host, host, KAFKA_PORT, self._clock, timeout=3.0)
        try:
            link: Any = await endpoint.connect(factory)
        except Exception as error:
            raise BrokerUnavailable(str(error)) from error
        self._link, self._linked = link, number
        return self._link

    def _failed(self, failure: Failure) -> None:
        if not failure.check(Violation):
            raise Violation(f"{self.host}: {failure.value!r}") from failure.value


def _of_producer(batch: bytes, sequence: int) -> bytes:
    """Return a batch as it is on the wire with a producer, and a sequence."""
    head = BATCH_FIELDS.unpack_from(batch, _FIELDS_AT)
    fields = BATCH_FIELDS.pack(*head[:4], _PRODUCER, 0, sequence, head[-1])
    checked = fields + batch[_FIELDS_AT + BATCH_FIELDS.size :]
    return batch[: _FIELDS_AT - 4] + crc32c(checked).to_bytes(4, "big") + checked
