"""The rate and latency of an ordinary producer and consumer, by which a bench measures a disturbance."""

from __future__ import annotations

import time
from typing import Any

from attrs import asdict, define, frozen
from twisted.internet.defer import Deferred

from logd.bench.rates.latency import latency
from logd.bench.rates.workload import Workload
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.client.producer.producer import Producer
from logd.deferreds.timeouts import with_timeout
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet

#: The load: sets of BATCH messages of SIZE bytes, up to BUFFER_BYTES of them in flight.
BATCH = 50
SIZE = 200
BUFFER_BYTES = 8 << 20
#: Messages sent one by one for the latency, each after the previous one has arrived.
ONE_BY_ONE = 200
#: Seconds without any message after which the bench gives up.
PATIENCE_SECONDS = 60.0


@frozen
class Pace:
    """Messages a second, produced (acks=1) and delivered at the same time; milliseconds for one message at a time."""

    produced_per_second: float
    consumed_per_second: float
    acknowledged_ms_median: float
    delivered_ms_median: float
    delivered_ms_99: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


async def pace(reactor: Any, address: str, topic: str, seconds: float, one_by_one: int = ONE_BY_ONE) -> Pace:
    """Produce and consume at full speed for ``seconds``, then measure the latency."""
    produced, consumed = await rates(reactor, address, topic, seconds)
    slow = await latency(reactor, address, topic, Workload(one_by_one, SIZE, 1, acks=1))
    return Pace(
        round(produced), round(consumed), slow.acknowledged_ms_median, slow.delivered_ms_median, slow.delivered_ms_99
    )


async def rates(reactor: Any, address: str, topic: str, seconds: float) -> tuple[float, float]:
    """Produce for ``seconds`` and read everything back at the same time; return messages a second, sent and delivered.

    Raises LogdError unless exactly the sent messages have arrived.
    """
    producer = Producer(address, acks=1, buffer_bytes=BUFFER_BYTES, reactor=reactor)
    consumer = Consumer(address, start="latest", reactor=reactor)
    (stream,) = consumer.create_message_streams(topic, 1, partitions=[0])
    start = (await stream.end_positions())[0]
    stream.seek(0, start)
    message_set = MessageSet([Message(bytes(SIZE))] * BATCH)
    set_bytes = len(message_set.encode())
    delivered = _Delivered()
    consuming = Deferred.fromCoroutine(delivered.count(stream))
    failures: list[Any] = []
    begin = time.perf_counter()
    sent = 0
    while time.perf_counter() - begin < seconds:
        if not producer.has_room:
            await producer.ready()
        producer.send(topic, message_set, partition=0).addErrback(failures.append)
        sent += BATCH
    await producer.flush()
    produced = sent / (time.perf_counter() - begin)
    delivered.end = start + sent // BATCH * set_bytes
    if delivered.position < delivered.end:
        await with_timeout(reactor, PATIENCE_SECONDS, consuming)
    consumed = delivered.messages / (time.perf_counter() - begin)
    await producer.close()
    await consumer.close()
    if failures:
        raise failures[0].value
    if delivered.messages != sent:
        raise LogdError(f"{sent} messages were sent and {delivered.messages} arrived")
    return produced, consumed


@define
class _Delivered:
    """The progress of a consumer, and its end once that is known."""

    messages: int = 0
    position: int = -1
    end: int | None = None

    async def count(self, stream: MessageStream) -> None:
        """Count the messages that arrive."""
        async for batch in stream.batches():
            self.messages += len(batch.messages)
            self.position = batch.next_position
            if self.end is not None and self.position >= self.end:
                return
