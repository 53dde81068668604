"""aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from .digest import Digest, record, run, shares

#: Records that wait for an acknowledgement at a time.
_UNDER_WAY = 5000


async def _produce(bootstrap: str, topic: str, count: int, codecs: str, **more: Any) -> dict[str, Any]:
    errors: list[str] = []
    for codec, numbers in shares(count, codecs.split(",")):
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5, **more)
        async with producer:
            waiting: list[Any] = []
            for number in numbers:
                key, value = record(number)
                waiting.append(await producer.send(topic, value, key, partition=0))
                if len(waiting) >= _UNDER_WAY or number == numbers[-1]:
                    done = await asyncio.gather(*waiting, return_exceptions=True)
                    errors += [repr(each) for each in done if isinstance(each, BaseException)]
                    waiting.clear()
    return {"errors": len(errors), "first": errors[:1]}


async def _consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    digest = Digest()
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        while digest.count < count:
            found = await consumer.getmany(timeout_ms=1000, max_records=count - digest.count)
            for message in found.get(partition, ()):
                digest.add(message.offset, message.timestamp, message.key, message.value)
    return digest.result()


async def _look(bootstrap: str, topic: str, offset: int, milliseconds: int) -> dict[str, Any]:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([partition])
        found = (await consumer.offsets_for_times({partition: milliseconds}))[partition]
        consumer.seek(partition, offset)
        sought = (await consumer.getone()).offset
    return {"sought": sought, "found": found.offset}


async def _member(bootstrap: str, topic: str, group: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
        auto_commit_interval_ms=200,
    )
    async with consumer:
        async for message in consumer:
            print(message.value.split(b"-")[0].decode(), flush=True)


run(
    produce=lambda *given: asyncio.run(_produce(*given)),
    idempotent=lambda *given: asyncio.run(_produce(*given, enable_idempotence=True)),
    consume=lambda *given: asyncio.run(_consume(*given)),
    look=lambda *given: asyncio.run(_look(*given)),
    member=lambda *given: asyncio.run(_member(*given)),
)
