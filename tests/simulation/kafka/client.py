"""A client of Kafka that produces with acks=-1, one batch at a time for each partition, and reads all partitions.

It keeps its positions itself, as if they were in a database with the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from attrs import define, field
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecords
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.errors import BrokerUnavailable
from logd.protocol.batch import encode_batch
from logd.protocol.kafka.wire_batches import wire_size
from logd.protocol.message import Message
from logd.testing.memory.broker import KAFKA_PORT
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.kafka.link import KafkaLink
from tests.simulation.ledger import BOMB, Ledger, Place
from tests.simulation.violation import Violation, check
from tests.simulation.world import World

#: Batches that a client produces in all its lives, and the least of each life.
BATCHES = 25
LEAST = 5
#: Kafka's errors of a batch that is never stored. Those here are sound, but a producer of 0.7 may have created
#: the topic, which then takes no batches.
_FINAL = {2, 10, 43, 76, 87}
_OFFSET_OUT_OF_RANGE = 1
#: The bytes of an entry before the length of a batch on the wire.
_ENTRY_START = 8


@define(eq=False)
class KafkaClient:
    """A producer of ``BATCHES`` batches to ``topics``, and a reader of all their partitions, while it lives."""

    world: World
    ledger: Ledger
    host: str
    hosts: list[str]
    topics: list[str]
    #: True if topics may have the format of 0.7, so that they refuse batches.
    refusing: bool
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    unanswered: int = field(default=0, init=False)
    #: The payload that an answer has given each place and offset.
    told: dict[tuple[Place, int], bytes] = field(factory=dict, init=False)
    _batches: int = field(default=BATCHES, init=False)
    _numbers: int = field(default=0, init=False)
    _lives: int = field(default=0, init=False)
    #: The connections by broker, and the address of each broker.
    _links: dict[int, Deferred[KafkaLink | None]] = field(factory=dict, init=False)
    _addresses: dict[int, tuple[str, int]] = field(factory=dict, init=False)
    _leaders: dict[Place, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    @property
    def finished(self) -> bool:
        """True when every batch was sent and answered."""
        return self.sent >= self._batches and self.unanswered == 0

    def start(self) -> None:
        """Begin a life."""
        self._lives += 1
        self._batches = max(self._batches, self.sent + LEAST)
        self.unanswered = 0
        self._links, self._addresses, self._leaders = {}, {}, {}
        self.clock = clock = ProcessClock(self.world.clock)
        for work in (self._look(clock), self._produce(clock)):
            Deferred.fromCoroutine(work).addErrback(self._failed)

    def kill(self) -> None:
        """End at once. Messages that were not acknowledged may be stored or not."""
        if self.clock is not None:
            self.clock.kill()
            self.world.network.graveyard.append((self.clock, self._links))
            self.clock = None
            self.world.network.end_host(self.host)

    # Connections and leaders

    async def _look(self, clock: ProcessClock) -> None:
        """Ask for the leaders now and then, and read from each broker that leads."""
        reading: set[int] = set()
        while True:
            await self._ask_for_leaders(clock)
            for broker in sorted(set(self._leaders.values()) - reading):
                reading.add(broker)
                Deferred.fromCoroutine(self._read(clock, broker)).addErrback(self._failed)
            await deferLater(clock, 0.5 + self.random.random())

    async def _ask_for_leaders(self, clock: ProcessClock) -> None:
        known = [*self._addresses.items()]
        host = self.random.choice(self.hosts)
        number, address = self.random.choice(known) if known else (-1, (host, KAFKA_PORT))
        request = MetadataRequest[5](topics=[_topic(name) for name in self.topics], allow_auto_topic_creation=True)
        try:
            answer = await self._ask(clock, number, address, request)
        except BrokerUnavailable:
            self._addresses.pop(number, None)
            return
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            for part in topic.partitions:
                if part.leader_id >= 0:
                    check(part.leader_id in self._addresses, "a leader without an address", topic.name, part.leader_id)
                    self._leaders[topic.name, part.partition_index] = part.leader_id

    async def _ask(self, clock: ProcessClock, broker: int, address: tuple[str, int], request: Any) -> Any:
        """Send a request to a broker. Raises BrokerUnavailable."""
        connecting = self._links.get(broker)
        if connecting is None:

            def lost() -> None:
                if self._links.get(broker) is connecting:
                    del self._links[broker]

            factory = Factory.forProtocol(lambda: KafkaLink(clock, lost))
            endpoint = self.world.network.endpoint(self.host, *address, clock, timeout=3.0)
            made: Any = endpoint.connect(factory)
            connecting = self._links[broker] = made
            connecting.addErrback(lambda _: lost())
        waiter: Deferred[KafkaLink | None] = Deferred()

        def connected(link: KafkaLink | None) -> KafkaLink | None:
            waiter.callback(link)
            return link

        connecting.addCallback(connected)
        link = await waiter
        if link is None:
            raise BrokerUnavailable(f"broker {broker} cannot be reached")
        return await link.ask(request)

    # Producing

    async def _produce(self, clock: ProcessClock) -> None:
        random = self.random
        while self.sent < self._batches:
            await deferLater(clock, 0.4 * random.random())
            if not self._leaders:
                continue
            place = random.choice(sorted(self._leaders))
            name = f"{self.host}.{self._lives}"
            payloads = []
            for _ in range(random.choice([1, 1, 2, 5, 20])):
                payloads.append(self.ledger.send(name, self._numbers, place[0], b"x" * random.randrange(40)))
                self._numbers += 1
            self.sent += 1
            self.unanswered += 1
            await self._store(clock, place, payloads)
            self.unanswered -= 1

    async def _store(self, clock: ProcessClock, place: Place, payloads: list[bytes]) -> None:
        """Send a batch again and again until it is acknowledged or refused for good."""
        topic, partition = place
        time = int(clock.seconds() * 1000)
        entry = encode_batch(
            [Message(payload, timestamp=time) for payload in payloads], self.random.choice(["none", "none", "gzip"])
        )
        records = bytes(8) + entry[_ENTRY_START : _ENTRY_START - 8 + wire_size(entry, 0)]
        data = ProduceRequest.TopicProduceData
        part = data.PartitionProduceData(index=partition, records=records)
        while True:
            leader = self._leaders.get(place, -1)
            address = self._addresses.get(leader)
            if address is not None:
                request = ProduceRequest[7](
                    transactional_id=None, acks=-1, timeout_ms=3000,
                    topic_data=[data(name=topic, partition_data=[part])],
                )  # fmt: skip
                try:
                    answer = await self._ask(clock, leader, address, request)
                except BrokerUnavailable:
                    pass
                else:
                    ((found,),) = [each.partition_responses for each in answer.responses]
                    if found.error_code == 0:
                        self._acknowledged(place, found.base_offset, payloads)
                        return
                    if found.error_code in _FINAL:
                        check(self.refusing, "a sound batch was refused", place, found.error_code)
                        self.world.trace.note(self.host, "refused", (place, found.error_code))
                        return
            await deferLater(clock, 0.2 + 0.3 * self.random.random())

    def _acknowledged(self, place: Place, base_offset: int, payloads: list[bytes]) -> None:
        self.world.trace.note(self.host, "acknowledged", (place, base_offset, len(payloads)))
        for number, payload in enumerate(payloads):
            self.ledger.acknowledge(payload, *place)
            known = self.told.setdefault((place, base_offset + number), payload)
            check(known == payload, "two messages have one offset", place, base_offset + number)

    # Reading

    async def _read(self, clock: ProcessClock, broker: int) -> None:
        """Read the partitions that a broker leads."""
        random = self.random
        kind = FetchRequest.FetchTopic
        while True:
            places = sorted(place for place, leader in self._leaders.items() if leader == broker)
            address = self._addresses.get(broker)
            if not places or address is None:
                await deferLater(clock, 0.5)
                continue
            asked = {place: self.ledger.progress(self.host, *place).handled for place in places}
            most = random.choice([100, 1 << 20])
            topics = [
                kind(
                    topic=topic,
                    partitions=[
                        kind.FetchPartition(partition=part, fetch_offset=asked[topic, part], partition_max_bytes=most)
                        for name, part in places
                        if name == topic
                    ],
                )
                for topic in sorted({topic for topic, _ in places})
            ]
            request = FetchRequest[5](
                max_wait_ms=1000, min_bytes=1, max_bytes=random.choice([300, 1 << 20]), topics=topics
            )
            try:
                answer = await self._ask(clock, broker, address, request)
            except BrokerUnavailable:
                await deferLater(clock, 0.2 + random.random())
                continue
            if not self._take(asked, answer):
                await deferLater(clock, 0.2)

    def _take(self, asked: Mapping[Place, int], answer: Any) -> bool:
        """Take an answer; return False if a partition could not be read."""
        sound = True
        for topic in answer.responses:
            for part in topic.partitions:
                place = topic.topic, part.partition_index
                if part.error_code == _OFFSET_OUT_OF_RANGE and part.log_start_offset > asked[place]:
                    self._move(place, part.log_start_offset)
                elif part.error_code:
                    sound = False
                elif part.records:
                    self._handle(place, asked[place], bytes(part.records), part.high_watermark)
        return sound

    def _handle(self, place: Place, asked: int, records: bytes, end: int) -> None:
        """Check and note the messages of whole batches."""
        position = asked
        batches = MemoryRecords(records)
        check(batches.has_next(), "a fetch of Kafka's has bytes and no whole batch", place, asked, len(records))
        while batches.has_next():
            batch = batches.next_batch()
            check(batch.validate_crc(), "a batch is damaged on its way to Kafka's clients", place, position)
            behind = batch.base_offset + batch.last_offset_delta + 1
            check(batch.base_offset <= behind, "a batch without offsets", place, batch.base_offset)
            check(position < behind <= end, "a batch does not move its reader on", place, position, behind, end)
            for record in batch:
                if record.offset < position or record.value.startswith(BOMB):
                    continue
                check(record.offset < behind, "a message is behind its batch", place, record.offset, behind)
                told = self.told.get((place, record.offset), record.value)
                check(told == record.value, "another message is at the offset of an answer", place, record.offset, told)
                message = Message(record.value)._replace(
                    topic=place[0], partition=place[1], id=position, next_position=record.offset + 1
                )
                progress = self.ledger.progress(self.host, *place)
                self.ledger.handle(self.host, self.host, message, min(position, progress.handled))
                position = record.offset + 1
            position = behind
            self._move(place, behind)

    def _move(self, place: Place, position: int) -> None:
        """Note the next position, past what is left out for Kafka's clients."""
        progress = self.ledger.progress(self.host, *place)
        progress.handled = max(progress.handled, position)

    def _failed(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: the client failed: {failure.value!r}") from failure.value


def _topic(name: str) -> Any:
    return MetadataRequest.MetadataRequestTopic(name=name)
