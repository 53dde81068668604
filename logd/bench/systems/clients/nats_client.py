"""nats-py, the asyncio client of NATS JetStream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import NAP_SECONDS, Load, Stopwatch

#: Messages that are not acknowledged at a time, and messages asked for in one fetch.
IN_FLIGHT, FETCH = 256, 500


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: each message is published and acknowledged by itself, IN_FLIGHT of them at a time."""
    asyncio.run(_produce(address, load, watch))


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: fetches of a pull consumer that needs no acknowledgements."""
    asyncio.run(_consume(address, load, watch))


async def _stream(address: str, load: Load) -> tuple[Any, Any]:
    import nats
    from nats.js.errors import BadRequestError

    connection = await nats.connect(f"nats://{address}")
    stream = connection.jetstream()
    with suppress(BadRequestError):  # the other side was first
        await stream.add_stream(name=load.topic, subjects=[load.topic])
    return connection, stream


async def _produce(address: str, load: Load, watch: Stopwatch) -> None:
    connection, stream = await _stream(address, load)
    watch.start()
    held: list[Any] = []
    for payload in load.due_payloads():
        if payload is None:
            await asyncio.sleep(NAP_SECONDS)
            continue
        held.append(asyncio.ensure_future(stream.publish(load.topic, payload)))
        if len(held) >= IN_FLIGHT:
            await asyncio.gather(*held)
            held.clear()
    await asyncio.gather(*held)
    watch.stop(load.messages)
    await connection.close()


async def _consume(address: str, load: Load, watch: Stopwatch) -> None:
    from nats.errors import TimeoutError as NothingCame
    from nats.js.api import AckPolicy, ConsumerConfig

    connection, stream = await _stream(address, load)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    subscription = await stream.pull_subscribe(load.topic, "bench", config=config)
    watch.start()
    count = 0
    while count < load.messages:
        # At a rate, one at a time: a fetch of many waits until it is full.
        with suppress(NothingCame):
            messages = await subscription.fetch(1 if load.rate else min(FETCH, load.messages - count), timeout=5)
            count += len(messages)
            if load.rate:
                for message in messages:
                    watch.note(message.data)
    watch.stop(count)
    await connection.close()


if __name__ == "__main__":
    run_client(produce, consume)
