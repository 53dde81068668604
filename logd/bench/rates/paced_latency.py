"""Measures latency at a given rate: messages are sent on a fixed schedule, whether earlier ones have arrived or not."""

from __future__ import annotations

import time
from struct import Struct
from typing import Any

from attrs import asdict, define, field, frozen
from twisted.internet.defer import Deferred

from logd.bench.precise_sleep import PreciseSleep
from logd.bench.rates.percentiles import milliseconds
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import LogdError

#: The time at which a message was due stands at the beginning of its payload.
DUE = Struct(">d")
#: Seconds within which the last message has to arrive.
PATIENCE_SECONDS = 60.0


@frozen
class PacedLatency:
    """Milliseconds from the moment at which a message was due to the acknowledgement, and to the consumer.

    The time of a message that is sent late counts from when it was due, so that a stall counts for every message that
    it delays. If ``reached_per_second`` is below ``rate``, the rate was too high.
    """

    rate: float
    reached_per_second: float
    messages: int
    acknowledged_ms_median: float
    acknowledged_ms_99: float
    delivered_ms_median: float
    delivered_ms_99: float
    delivered_ms_99_9: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@define(eq=False)
class _Times:
    acknowledged: list[float] = field(factory=list)
    delivered: list[float] = field(factory=list)
    failures: list[Any] = field(factory=list)

    def note(self, result: Any, due: float) -> None:
        self.acknowledged.append(time.perf_counter() - due)

    async def read(self, stream: MessageStream, messages: int) -> None:
        async for batch in stream.batches():
            now = time.perf_counter()
            self.delivered += [now - DUE.unpack_from(each.payload or b"")[0] for each in batch.messages]
            if len(self.delivered) >= messages:
                return


async def paced_latency(
    reactor: Any, address: str, topic: str, size: int, acks: int, rate: float, seconds: float
) -> PacedLatency:
    """Send ``rate`` messages a second to partition 0 for ``seconds``, one a call, and receive them.

    Raises LogdError if a message could not be delivered, TimeoutError if the last one does not arrive.
    """
    messages = max(2, round(rate * seconds))
    producer = Producer(address, acks=acks, reactor=reactor)
    consumer = Consumer(address, start="latest", reactor=reactor)
    times = _Times()
    pauses = PreciseSleep(reactor)
    try:
        (stream,) = consumer.create_message_streams(topic, 1, partitions=[0])
        stream.seek(0, (await stream.end_positions())[0])
        await producer.send(topic, DUE.pack(time.perf_counter()), partition=0)  # connects; the first that arrives
        reading = Deferred.fromCoroutine(times.read(stream, messages + 1))
        padding = bytes(max(0, size - DUE.size))
        sent, begin = 0, time.perf_counter()
        while sent < messages:
            due = begin + sent / rate
            if due > time.perf_counter():
                await pauses.until(due)
                continue
            producer.send(topic, DUE.pack(due) + padding, partition=0).addCallbacks(
                times.note, times.failures.append, callbackArgs=(due,)
            )
            sent += 1
            if sent % 64 == 0:
                await sleep(reactor, 0)
        took = time.perf_counter() - begin
        await producer.flush()
        if times.failures:
            raise LogdError(f"a message could not be delivered: {times.failures[0].getErrorMessage()}")
        await with_timeout(reactor, PATIENCE_SECONDS, reading)
    finally:
        pauses.close()
        await producer.close()
        await consumer.close()
    delivered = times.delivered[1:]
    return PacedLatency(
        round(rate, 1),
        round(messages / took, 1),
        messages,
        milliseconds(times.acknowledged, 0.5),
        milliseconds(times.acknowledged, 0.99),
        milliseconds(delivered, 0.5),
        milliseconds(delivered, 0.99),
        milliseconds(delivered, 0.999),
    )
