"""aiokafka, the asyncio client of Apache Kafka."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import NAP_SECONDS, STORED_SECONDS, Load, Stopwatch
from logd.errors import LogdError

#: Futures of ``send`` held before they are awaited: memory stays bounded.
HELD = 10_000


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: ``send`` for each message; with 50 to a request, batches made by hand. A first connects it."""
    asyncio.run(_produce(address, load, watch))


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: lists of messages by ``getmany``."""
    asyncio.run(_consume(address, load, watch))


async def _produce(address: str, load: Load, watch: Stopwatch) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=address, acks=load.acks)
    await producer.start()
    await producer.send_and_wait(load.topic, bytes(load.size), partition=0)
    log, begin = None, 0
    if load.acks == 0:
        log = AIOKafkaConsumer(bootstrap_servers=address)  # connected before the time begins
        await log.start()
        begin = await _await_end(log, load.topic, 1)
    watch.start()
    held: list[Any] = []
    if load.batch:
        payload = load.payload()
        for _ in range(load.messages // load.batch):
            batch = producer.create_batch()
            for _ in range(load.batch):
                batch.append(value=payload, key=None, timestamp=None)
            batch.close()
            held.append(await producer.send_batch(batch, load.topic, partition=0))
            if len(held) >= HELD // load.batch:
                await asyncio.gather(*held)
                held.clear()
    else:
        for due in load.due_payloads():
            if due is None:
                await asyncio.sleep(NAP_SECONDS)
                continue
            held.append(await producer.send(load.topic, due, partition=0))
            if len(held) >= HELD:
                await asyncio.gather(*held)
                held.clear()
    await asyncio.gather(*held)
    if log is not None:
        await _await_end(log, load.topic, begin + load.messages)
    watch.stop(load.messages)
    if log is not None:
        await log.stop()
    await producer.stop()


async def _consume(address: str, load: Load, watch: Stopwatch) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    partition = TopicPartition(load.topic, 0)
    await consumer.end_offsets([partition])  # connects to the leader
    watch.start()
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    count = 0
    while count < load.messages:
        for messages in (await consumer.getmany(timeout_ms=1000)).values():
            count += len(messages)
            if load.rate:
                for message in messages:
                    watch.note(message.value)
    watch.stop(count)
    await consumer.stop()


async def _await_end(consumer: Any, topic: str, least: int) -> int:
    """Wait until the log has so many messages, which nobody acknowledges; return its end. Raises LogdError."""
    from aiokafka import TopicPartition

    partition = TopicPartition(topic, 0)
    deadline = time.monotonic() + STORED_SECONDS
    while (end := (await consumer.end_offsets([partition]))[partition]) < least:
        if time.monotonic() > deadline:
            raise LogdError(f"of {least} messages without acknowledgement only {end} arrived")
        await asyncio.sleep(NAP_SECONDS)
    return int(end)


if __name__ == "__main__":
    run_client(produce, consume)
