"""Measures the time from ``send`` to the consumer, one message at a time."""

from __future__ import annotations

import time
from typing import Any

from attrs import asdict, frozen

from logd.bench.rates.percentiles import milliseconds
from logd.bench.rates.workload import Workload
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.protocol.message import Message


@frozen
class Latency:
    """Milliseconds: to the acknowledgement (acks as given), and to the consumer, which sees flushed messages only."""

    bench: str
    messages: int
    size: int
    acks: int
    messages_per_second: float
    acknowledged_ms_median: float
    acknowledged_ms_99: float
    delivered_ms_median: float
    delivered_ms_99: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


async def latency(reactor: Any, address: str, topic: str, workload: Workload) -> Latency:
    """Send the workload's messages one by one, each after the previous one has arrived."""
    producer = Producer(address, acks=workload.acks, linger=0.0, reactor=reactor)
    consumer = Consumer(address, start="latest", reactor=reactor)
    (stream,) = consumer.create_message_streams(topic, 1, partitions=[0])
    start = (await stream.end_positions())[0]
    stream.seek(0, start)
    acknowledged: list[float] = []
    delivered: list[float] = []
    message = Message(bytes(workload.size))

    def note(result: Any, begin: float) -> Any:
        acknowledged.append(time.perf_counter() - begin)
        return result

    first = time.perf_counter()
    for _ in range(workload.messages):
        arriving = stream.get()
        begin = time.perf_counter()
        sent = producer.send(topic, message, partition=0)
        sent.addBoth(note, begin)
        await arriving
        delivered.append(time.perf_counter() - begin)
        await sent
    seconds = time.perf_counter() - first
    await producer.close()
    await consumer.close()
    return Latency(
        "latency",
        workload.messages,
        workload.size,
        workload.acks,
        round(workload.messages / seconds),
        milliseconds(acknowledged, 0.5),
        milliseconds(acknowledged, 0.99),
        milliseconds(delivered, 0.5),
        milliseconds(delivered, 0.99),
    )
