"""Applications that produce: each sends or publishes numbered messages with acks=-1; after a kill it goes on under a
new name.
"""

from __future__ import annotations

from random import Random

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from logd.client.producer.partitioner import KeyedPartitioner, RandomPartitioner
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.errors import ClientClosed
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.ledger import Ledger
from tests.simulation.violation import Violation
from tests.simulation.world import World


@define(eq=False)
class ProducingApplication:
    """A producer that sends ``messages`` to ``topics``, one set after the other, for as long as it lives."""

    world: World
    ledger: Ledger
    host: str
    brokers: list[tuple[str, int]]
    topics: list[str]
    #: A topic that gets messages after half of all are sent.
    late_topic: str
    messages: int
    #: The least messages of each life.
    least: int
    #: Seconds between two sets, about.
    pace: float
    #: With 0 no message is acknowledged, so that any may be missing.
    acks: int = -1
    #: Without keys, every topic takes the messages, also one that a producer of 0.7 has created.
    keys: bool = True
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    unanswered: int = field(default=0, init=False)
    _lives: int = field(default=0, init=False)
    _producer: Producer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    @property
    def finished(self) -> bool:
        """True when every message was sent and answered."""
        return self.sent >= self.messages and self.unanswered == 0

    def start(self) -> None:
        """Begin a life."""
        self._lives += 1
        self.messages = max(self.messages, self.sent + self.least)  # so that each life has messages to send
        self.unanswered = 0
        world = self.world
        self.clock = clock = ProcessClock(world.clock)
        self._producer = Producer(
            self.brokers,
            partitioner=KeyedPartitioner(RandomPartitioner(Random(self.random.random()))),
            reactor=clock,
            connect=world.network.connector(self.host, clock, timeout=3.0),
            random=self.random.random,
            acks=self.acks,
            linger=self.random.choice([0.0, 0.05]),
            batch_messages=self.random.choice([1, 3, 10_000] if self.acks else [1, 1, 1, 3]),
            max_in_flight=self.random.choice([1, 4]),
            compression=self.random.choice(["none", "none", "none", "gzip"]),
            format=self.random.choice(["batch", "plain"]),
            on_error=self._undelivered,
            delivery_timeout=3600.0,
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=2.0,
            metadata_age=20.0,
        )
        clock.callLater(self.pace * self.random.random(), self._send)

    def kill(self) -> None:
        """End at once. Messages that were not acknowledged may be stored or not."""
        if self.clock is not None:
            self.clock.kill()
            self.world.network.graveyard.append((self.clock, self._producer))
            self.clock = None
            self.world.network.end_host(self.host)

    def close(self) -> None:
        """Send nothing more, and close the producer, without waiting for its end."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
            self.world.network.graveyard.append(producer)

    def _send(self) -> None:
        if self.sent >= self.messages or self._producer is None or self.clock is None:
            return
        random = self.random
        topics = self.topics if self.sent < self.messages / 2 else [*self.topics, self.late_topic]
        topic = random.choice(topics)
        name = f"{self.host}.{self._lives}"
        if not self.acks:
            self.ledger.careless.add(name)
        count = min(self.messages - self.sent, random.choice([1, 1, 2, 5]))
        payloads = []
        for _ in range(count):
            payloads.append(self.ledger.send(name, self.sent, topic, b"x" * random.randrange(40)))
            self.sent += 1
        key = random.choice([None, b"a", b"b", b"c"]) if self.keys else None
        self.unanswered += 1
        if random.random() < 0.4:
            # The place is given, since nobody tells the place of a published message.
            for payload in payloads:
                self._producer.publish(topic, payload, key, partition=0)
            flushing = self._producer.flush()
            flushing.addCallbacks(self._flushed, self._failed, callbackArgs=(topic, payloads))
            self.clock.callLater(self.pace * 2 * random.random(), self._send)
            return
        sending = self._producer.send(topic, payloads, key=key)
        sending.addCallbacks(self._acknowledged, self._failed, callbackArgs=(topic, payloads))
        self.clock.callLater(self.pace * 2 * random.random(), self._send)

    def _acknowledged(self, sent: Sent, topic: str, payloads: list[bytes]) -> None:
        self.unanswered -= 1
        if not self.acks:
            return
        self.world.trace.note(self.host, "acknowledged", (topic, sent.partition, sent.first_id, len(payloads)))
        partitions = {part.partition for part in sent.parts} or {sent.partition}
        if len(partitions) > 1:
            raise Violation("one key went to several partitions", topic, sent)
        for payload in payloads:
            self.ledger.acknowledge(payload, topic, sent.partition)

    def _flushed(self, _: None, topic: str, payloads: list[bytes]) -> None:
        """Take all published messages before the flush as stored: none of them was reported."""
        self._acknowledged(Sent(topic, 0), topic, payloads)

    def _undelivered(self, topic: str, count: int, error: Exception) -> None:
        if self.acks and not isinstance(error, ClientClosed):
            raise Violation(f"{self.host}: {count} published messages of {topic} failed: {error!r}")

    def _failed(self, failure: Failure) -> None:
        self.unanswered -= 1
        closed = failure.check(ClientClosed, CancelledError) or isinstance(
            getattr(failure.value, "__cause__", None), ClientClosed
        )
        if self.acks and not closed:
            raise Violation(f"{self.host}: a send failed: {failure.value!r}") from failure.value
