"""rstream, the asyncio client of RabbitMQ's streams; ``option`` is their port."""

from __future__ import annotations

import asyncio
from typing import Any

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import NAP_SECONDS, Load, Stopwatch

_ACCOUNT = {"username": "guest", "password": "guest"}


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: lists of messages, or one a call with the client's own batches; confirmed."""
    asyncio.run(_produce(load, int(option), watch))


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: messages pushed to a callback."""
    asyncio.run(_consume(load, int(option), watch))


async def _produce(load: Load, port: int, watch: Stopwatch) -> None:
    from rstream import Producer

    confirmed = 0
    everything = asyncio.Event()

    async def on_confirm(status: Any) -> None:
        nonlocal confirmed
        confirmed += 1
        if confirmed >= load.messages:
            everything.set()

    async with Producer("127.0.0.1", port=port, **_ACCOUNT) as producer:
        await producer.create_stream(load.topic, exists_ok=True)
        watch.start()
        if load.batch:
            payload = load.payload()
            for _ in range(load.messages // load.batch):
                messages = [payload] * load.batch
                await producer.send_batch(load.topic, messages, on_publish_confirm=on_confirm)
        else:
            for due in load.due_payloads():
                if due is None:
                    await asyncio.sleep(NAP_SECONDS)
                    continue
                await producer.send(load.topic, due, on_publish_confirm=on_confirm)
        await everything.wait()
        watch.stop(load.messages)


async def _consume(load: Load, port: int, watch: Stopwatch) -> None:
    from rstream import Consumer, ConsumerOffsetSpecification, OffsetType

    count = 0
    everything = asyncio.Event()

    async def on_message(message: Any, context: Any) -> None:
        nonlocal count
        count += 1
        if load.rate:
            watch.note(message)
        if count >= load.messages:
            everything.set()

    consumer = Consumer("127.0.0.1", port=port, **_ACCOUNT)
    await consumer.start()
    await consumer.create_stream(load.topic, exists_ok=True)
    first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
    watch.start()
    await consumer.subscribe(load.topic, on_message, offset_specification=first)
    await everything.wait()
    watch.stop(count)
    await consumer.close()


if __name__ == "__main__":
    run_client(produce, consume)
