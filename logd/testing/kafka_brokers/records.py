"""The records that clients have produced, as a test looks at them, with Kafka's names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from attrs import frozen
from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.client.admin.admin import Admin
from logd.client.cluster.link import Connect
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.starting_positions import Position
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import UnknownTopic

#: Seconds between two looks at a topic that has fewer records than are waited for.
_LOOK_SECONDS = 0.01
#: Seconds without a batch after which the topic is looked at anew: it may have been deleted, or made again.
_BATCH_SECONDS = 5.0


@frozen
class KafkaRecord:
    """One record of a topic."""

    topic: str
    partition: int
    #: As Kafka's clients see it.
    offset: int
    #: Milliseconds since the epoch; None for none.
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


async def read_records(
    reactor: Any, address: tuple[str, int], topic: str, at_least: int, seconds: float, connect: Connect | None = None
) -> list[KafkaRecord]:
    """Return the records of a topic by partition and offset, once there are ``at_least``, or after ``seconds``.

    An unknown topic has none. ``connect``: by default over the network. Raises what Admin and Consumer raise.
    """
    deadline = reactor.seconds() + seconds
    while True:
        try:
            found = await _read(reactor, address, topic, connect)
        except defer.TimeoutError:
            continue
        if len(found) >= at_least or reactor.seconds() >= deadline:
            return found
        await sleep(reactor, _LOOK_SECONDS)


async def _read(reactor: Any, address: tuple[str, int], topic: str, connect: Connect | None) -> list[KafkaRecord]:
    admin = Admin([address], reactor=reactor, connect=connect)
    try:
        there = await admin.describe(topic)
        logs = await admin.describe_logs(topic, [each.partition for each in there.partitions])
    except UnknownTopic:
        return []
    finally:
        await admin.close()
    starts = {number: Position(log.log_start) for number, log in logs.items() if log.log_start < log.visible_end}
    until = {number: logs[number].visible_end for number in starts}
    if not until:
        return []
    found = []
    async with Consumer([address], reactor=reactor, connect=connect) as consumer:
        (stream,) = consumer.create_message_streams(topic, 1, list(starts), start=starts)
        batches = stream.batches(until)
        while (batch := await _next(reactor, batches)) is not None:
            for each in batch.messages:
                offset = each.next_position - 1
                found.append(
                    KafkaRecord(topic, each.partition, offset, each.timestamp, each.key, each.payload, each.headers)
                )
    return sorted(found, key=lambda record: (record.partition, record.offset))


async def _next(reactor: Any, batches: AsyncIterator[MessageBatch]) -> MessageBatch | None:
    """Return the next batch, or None at the end. Raises TimeoutError after ``_BATCH_SECONDS``."""
    return await with_timeout(reactor, _BATCH_SECONDS, Deferred.fromCoroutine(_step(batches)))


async def _step(batches: AsyncIterator[MessageBatch]) -> MessageBatch | None:
    return await anext(batches, None)
