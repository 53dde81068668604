"""The loads of ``produce`` and ``consume`` on asyncio's event loop, in a thread beside a reactor with nothing to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from logd.aio import Admin, Consumer, Producer
from logd.bench.peers.disturbing_peers import raise_limit
from logd.bench.rates.consume import PartitionReader, consumer_settings, parts_of, read_of
from logd.bench.rates.produce import OPENED_AT_ONCE, SPARE_DESCRIPTORS, WorkloadSender, log_bytes, producer_settings
from logd.bench.rates.result import Moved
from logd.bench.rates.workload import Workload

T = TypeVar("T")


def on_asyncio(work: Coroutine[Any, Any, T]) -> Deferred[T]:
    """Run a coroutine of asyncio in a thread with an event loop; cancelling the Deferred cancels the coroutine."""
    cancels: list[Callable[[], object]] = []

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await task

    def cancel(_: Deferred[T]) -> None:
        for each in cancels:
            with suppress(RuntimeError):  # the loop has just ended
                each()

    done: Deferred[T] = Deferred(cancel)
    deferToThread(asyncio.run, main()).chainDeferred(done)
    return done


@define(eq=False)
class _AsyncioSender(WorkloadSender):
    """A sender whose producer is asyncio's. The event loop reports futures that failed, which nobody looks at."""

    async def _send(self, each: Any) -> None:
        producer, topic = self.producer, self.topic
        for _, content, partition in each:
            if not producer.has_room:
                await producer.ready()
            producer.send(topic, content, partition=partition)


async def produce(address: str, topic: str, workload: Workload) -> Moved:
    """Publish as ``logd.bench.rates.produce.produce`` does, by the producers of ``logd.aio``."""
    raise_limit(workload.connections + SPARE_DESCRIPTORS)
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    senders = [
        _AsyncioSender(Producer(address, **producer_settings(workload)), topic, workload, number)
        for number in range(workload.connections)
    ]
    async with Admin(address) as admin:
        try:
            for at in range(0, len(senders), OPENED_AT_ONCE):
                await asyncio.gather(*[each.connect() for each in senders[at : at + OPENED_AT_ONCE]])
            before, _ = await log_bytes(admin, topic, workload, asyncio.sleep)
            begin = time.perf_counter()
            await asyncio.gather(*[each.run() for each in senders])
            seconds = time.perf_counter() - begin
            after, end = await log_bytes(admin, topic, workload, asyncio.sleep)
            if workload.acks == 0:
                seconds = end - begin
            for each in failures:
                raise each.get("exception") or RuntimeError(each["message"])
        finally:
            await asyncio.gather(*[each.producer.close() for each in senders])
    return Moved(seconds, sum(each.calls() for each in senders) * workload.batch, after - before)


async def consume(address: str, topic: str, workload: Workload, form: str, message_bytes: float) -> Moved:
    """Read as ``logd.bench.rates.consume.consume`` does, by the consumers of ``logd.aio``."""
    raise_limit(workload.connections + SPARE_DESCRIPTORS)
    settings, parts = consumer_settings(workload), parts_of(workload)
    consumers = [Consumer(address, start="earliest", **settings) for _ in parts]
    try:
        readers = [
            await PartitionReader.open(each, topic, partitions)
            for each, partitions in zip(consumers, parts, strict=True)
        ]
        begin = time.perf_counter()
        counts = await asyncio.gather(*[each.read(form) for each in readers])
        seconds = time.perf_counter() - begin
    finally:
        await asyncio.gather(*[each.close() for each in consumers])
    return read_of(readers, counts, seconds, message_bytes)
