"""Measures consumers reading from a broker: messages as objects, one by one or in batches, or the bytes of the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define

from logd.bench.peers.disturbing_peers import raise_limit
from logd.bench.rates.produce import NO_ACCESS, SPARE_DESCRIPTORS
from logd.bench.rates.result import Moved
from logd.bench.rates.workload import Workload
from logd.client.consumer.consumer import Consumer
from logd.deferreds.gathering import gather

#: The ways to read: ``async for message in stream``, ``stream.batches()``, ``stream.raw()``.
FORMS = ("messages", "batches", "raw")
#: Bytes that the consumers hold ahead together when there are many; each has LEAST_AHEAD_BYTES at least.
AHEAD_BYTES = 256 << 20
LEAST_AHEAD_BYTES = 64 << 10
#: As many connections as this have a user's defaults.
FEW = 32


@define(eq=False)
class PartitionReader:
    """One consumer, which has one connection to the broker, and the ends up to which it reads.

    The consumer and its stream are those of ``logd.client`` or ``logd.aio``.
    """

    consumer: Any
    stream: Any
    ends: Mapping[int, int]

    @classmethod
    async def open(cls, consumer: Any, topic: str, partitions: list[int]) -> PartitionReader:
        (stream,) = consumer.create_message_streams(topic, 1, partitions=partitions)
        return cls(consumer, stream, await stream.end_positions())

    async def read(self, form: str) -> int:
        """Read from the beginning to the ends; return the number of messages, 0 for raw bytes."""
        messages = 0
        if form == "raw":
            async for _ in self.stream.raw(until=self.ends):
                pass
        elif form == "batches":
            async for batch in self.stream.batches(until=self.ends):
                messages += len(batch.messages)
        else:
            left = sum(end > 0 for end in self.ends.values())
            ends = {partition: end for partition, end in self.ends.items() if end}
            single = next(iter(ends.values())) if len(ends) == 1 else None
            if not left:
                return 0
            async for message in self.stream:
                messages += 1
                if message.next_position >= (single or ends[message.partition]):
                    left -= 1
                    if not left:
                        break
        return messages


async def consume(
    reactor: Any,
    address: str,
    topic: str,
    workload: Workload,
    form: str,
    message_bytes: float,
    access: Mapping[str, Any] = NO_ACCESS,
    at_edges: Callable[[], object] = lambda: None,
) -> Moved:
    """Read a topic from its beginning to its present end.

    One connection reads all partitions. With several, each reads one partition, in turn, from beginning to end, so a
    partition may be read many times. Messages are read as objects with every checksum verified; raw bytes are neither
    verified nor counted: a message has ``message_bytes`` there. ``access``: the settings that name a user.
    ``at_edges`` is called as the measured time begins and ends.
    """
    raise_limit(workload.connections + SPARE_DESCRIPTORS)
    settings, parts = consumer_settings(workload), parts_of(workload)
    consumers = [Consumer(address, start="earliest", reactor=reactor, **settings, **access) for _ in parts]
    try:
        readers = [
            await PartitionReader.open(each, topic, partitions)
            for each, partitions in zip(consumers, parts, strict=True)
        ]
        at_edges()
        begin = time.perf_counter()
        counts = await gather([each.read(form) for each in readers])
        seconds = time.perf_counter() - begin
        at_edges()
    finally:
        await gather([_close(each) for each in consumers])
    return read_of(readers, counts, seconds, message_bytes)


def consumer_settings(workload: Workload) -> dict[str, Any]:
    """Return the settings of each consumer of this workload; what is not here is a user's default."""
    if workload.connections <= FEW:
        return {}
    ahead = max(LEAST_AHEAD_BYTES, AHEAD_BYTES // workload.connections)
    return {"prefetch_bytes": ahead, "fetch_bytes": ahead}


def parts_of(workload: Workload) -> list[list[int]]:
    """Return the partitions of each consumer: all of them for a single one, else one for each."""
    if workload.connections == 1:
        return [list(range(workload.partitions))]
    return [[number % workload.partitions] for number in range(workload.connections)]


def read_of(readers: Sequence[PartitionReader], counts: Sequence[int], seconds: float, message_bytes: float) -> Moved:
    """Return the work of readers with these counts of messages, which raw bytes do not have."""
    log_bytes = sum(sum(each.ends.values()) for each in readers)
    return Moved(seconds, sum(counts) or round(log_bytes / message_bytes), log_bytes)


async def _close(consumer: Consumer) -> None:
    await consumer.close()
