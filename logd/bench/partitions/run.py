"""Measures the same messages over few and over many partitions of one broker, in turn, and gives the ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from attrs import asdict, define, frozen
from twisted.internet.threads import deferToThread

from logd.bench.partitions.cost import Cost, CostMeter
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess

#: Seconds that a broker may take to answer and to stop, with thousands of partitions to create and to close. It is the
#: clients' time limit too: on a busy machine or disk, 10,000 logs are not deleted within the default.
PATIENCE_SECONDS = 600.0


@frozen
class PartitionsResult:
    """Medians over the rounds for one number of partitions; the ratios are to the first number of the same round."""

    bench: str
    partitions: int
    messages: int
    size: int
    acks: int
    rounds: int
    produce: Cost
    consume: Cost
    #: The rate beside that over the first number of partitions: 1 is as fast, below 1 is slower.
    produce_ratio: float
    consume_ratio: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@define
class PartitionsBench:
    """Publishes ``messages`` with keys to a new topic of each number of partitions, and reads them back."""

    folder: str
    partitions: Sequence[int]
    messages: int = 60_000
    size: int = 200
    acks: int = -1
    rounds: int = 3
    settings: Sequence[str] = ()
    tell: Callable[[str], None] = lambda _: None

    async def run(self, reactor: Any) -> list[PartitionsResult]:
        """Measure, from the start of a broker to its end."""
        measured: dict[int, list[tuple[Cost, Cost]]] = {count: [] for count in self.partitions}
        with scratch(self.folder) as folder:
            options = [option for each in self.settings for option in ("--set", each)]
            broker = BrokerProcess(f"{folder}/data", options, log_path=f"{folder}/log", patience=PATIENCE_SECONDS)
            await deferToThread(broker.start)
            try:
                for number in range(self.rounds):
                    for count in self.partitions:
                        self.tell(f"round {number + 1} of {self.rounds}: {count:,} partitions")
                        measured[count].append(await self._one(reactor, broker, f"bench-{count}-{number}", count))
            finally:
                await deferToThread(broker.stop)
        first = measured[self.partitions[0]]
        return [self._result(count, measured[count], first) for count in self.partitions]

    async def _one(self, reactor: Any, broker: BrokerProcess, topic: str, count: int) -> tuple[Cost, Cost]:
        admin = Admin(broker.address, reactor=reactor, request_timeout=PATIENCE_SECONDS)
        await admin.create(topic, count)
        watch = CostMeter(broker.pid)
        await self._produce(reactor, broker.address, topic)
        produced = watch.stop()
        watch = CostMeter(broker.pid)
        await self._consume(reactor, broker.address, topic)
        consumed = watch.stop()
        await admin.delete(topic)
        await admin.close()
        return produced, consumed

    async def _produce(self, reactor: Any, address: str, topic: str) -> None:
        """Send message by message, each with a key of its own, and wait until the broker has all of them."""
        producer = Producer(
            address,
            acks=self.acks,
            reactor=reactor,
            request_timeout=PATIENCE_SECONDS,
            delivery_timeout=2 * PATIENCE_SECONDS,
        )
        payload = bytes(self.size)
        failures: list[Any] = []
        for number in range(self.messages):
            if not producer.has_room:
                await producer.ready()
            producer.send(topic, payload, key=b"%d" % number).addErrback(failures.append)
        await producer.flush()
        await producer.close()
        if failures:
            raise failures[0].value

    async def _consume(self, reactor: Any, address: str, topic: str) -> None:
        """Read all partitions with one stream until every message has come."""
        consumer = Consumer(address, start="earliest", reactor=reactor, request_timeout=PATIENCE_SECONDS)
        (stream,) = consumer.create_message_streams(topic, 1)
        came: list[Message] = []
        count = 0
        async for batch in stream.batches():
            came = batch.messages
            count += len(came)
            if count >= self.messages:
                break
        await consumer.close()
        if count != self.messages:
            raise LogdError(f"{self.messages} messages were sent and {count} arrived")

    def _result(self, count: int, costs: list[tuple[Cost, Cost]], first: list[tuple[Cost, Cost]]) -> PartitionsResult:
        return PartitionsResult(
            "partitions",
            count,
            self.messages,
            self.size,
            self.acks,
            self.rounds,
            _middle([produced for produced, _ in costs]),
            _middle([consumed for _, consumed in costs]),
            _ratio([one.seconds / cost.seconds for (one, _), (cost, _) in zip(first, costs, strict=True)]),
            _ratio([one.seconds / cost.seconds for (_, one), (_, cost) in zip(first, costs, strict=True)]),
        )


def _middle(costs: list[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        statistics.median(each.seconds for each in costs),
        statistics.median(each.client_seconds for each in costs),
        statistics.median(each.broker_seconds for each in costs),
    )


def _ratio(ratios: list[float]) -> float:
    return round(statistics.median(ratios), 3)
