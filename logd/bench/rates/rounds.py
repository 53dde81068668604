"""A whole bench: a broker of its own, and rounds in which limits and workloads are measured in turn."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.threads import deferToThread

from logd.bench.rates.consume import consume
from logd.bench.rates.latency import Latency, latency
from logd.bench.rates.limits import consume_limit, produce_limit
from logd.bench.rates.on_asyncio import consume as asyncio_consume
from logd.bench.rates.on_asyncio import on_asyncio
from logd.bench.rates.on_asyncio import produce as asyncio_produce
from logd.bench.rates.process_usage import UsageMeter
from logd.bench.rates.produce import produce
from logd.bench.rates.result import Moved, Result
from logd.bench.rates.workload import LARGE_BYTES, Workload
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.testing.processes.broker import BrokerProcess

T = TypeVar("T")

#: Bytes that the measurement of a limit moves: as many as the largest workload, within these bounds.
LEAST_LIMIT_BYTES, MOST_LIMIT_BYTES = 64 << 20, 1 << 30
#: Messages, and bytes of messages, in each set that is published for a consumer.
FILL_BATCH = 500
FILL_BYTES = 500_000


@frozen
class Where:
    """``folder`` is on the measured disk; ``broker`` is the address of a running broker, or None to start one."""

    folder: str
    broker: str | None = None


@define
class Bench:
    """Runs rounds against one broker; ``tell`` is called with a text about each step.

    Each round measures each workload in turn, and a limit before and after it.
    """

    where: Where
    rounds: int = 3
    tell: Callable[[str], None] = lambda _: None
    #: The process of the broker, if the bench has started it.
    _broker: int | None = field(default=None, init=False)

    async def produce(self, reactor: Any, workloads: Sequence[Workload]) -> list[list[Result]]:
        """Publish each workload in every round; return a list of results for each workload."""
        total = _limit_bytes(workloads)
        limits = _Limits(lambda: deferToThread(produce_limit, self.where.folder, total))
        async with self.broker(workloads) as address:

            async def one(workload: Workload, number: int) -> Result:
                self.tell(f"round {number + 1} of {self.rounds}: producing {workload.messages:,} messages")
                async with self.topic(address, workload.partitions) as topic:
                    work: Awaitable[Moved] = (
                        on_asyncio(asyncio_produce(address, topic, workload))
                        if workload.loop == "asyncio"
                        else produce(reactor, address, topic, workload)
                    )
                    return await self._measured("produce", workload, limits, work)

            return await self._in_turn(workloads, one)

    async def consume(self, reactor: Any, workloads: Sequence[Workload], form: str) -> list[list[Result]]:
        """Publish each workload once, then read it in every round; return a list of results for each workload."""
        total = 2 * _limit_bytes(workloads)
        limits = _Limits(lambda: deferToThread(consume_limit, self.where.folder, total))
        name = "consume" if form == "messages" else f"consume {form}"
        async with self.broker(workloads) as address, AsyncExitStack() as topics:
            filled: dict[Workload, tuple[str, float]] = {}
            for workload in workloads:
                topic = await topics.enter_async_context(self.topic(address, workload.partitions))
                filling = _filling(workload)
                self.tell(f"publishing {filling.messages:,} messages to read")
                moved = await produce(reactor, address, topic, filling)
                filled[workload] = topic, moved.log_bytes / moved.messages

            async def one(workload: Workload, number: int) -> Result:
                self.tell(f"round {number + 1} of {self.rounds}: consuming")
                topic, message_bytes = filled[workload]
                work: Awaitable[Moved] = (
                    on_asyncio(asyncio_consume(address, topic, workload, form, message_bytes))
                    if workload.loop == "asyncio"
                    else consume(reactor, address, topic, workload, form, message_bytes)
                )
                return await self._measured(name, workload, limits, work)

            return await self._in_turn(workloads, one)

    async def latency(self, reactor: Any, workload: Workload) -> list[Latency]:
        """Send and receive the workload's messages one by one in every round."""
        results = []
        async with self.broker([workload]) as address:
            for number in range(self.rounds):
                self.tell(f"round {number + 1} of {self.rounds}: sending {workload.messages:,} messages one by one")
                async with self.topic(address) as topic:
                    results.append(await latency(reactor, address, topic, workload))
        return results

    @asynccontextmanager
    async def broker(
        self, workloads: Sequence[Workload] = (), settings: Mapping[str, str] | None = None
    ) -> AsyncIterator[str]:
        """Give the address of the running broker, or of one that is stopped at the end, with its files removed.

        ``settings`` are those of a broker that is started, beside what ``workloads`` need.
        """
        if self.where.broker is not None:
            yield self.where.broker
            return
        largest = max([each.size for each in workloads], default=0)
        needed = {"message.bytes": str(2 * largest)} if largest > LARGE_BYTES else {}
        options = [
            word for name, value in (needed | dict(settings or {})).items() for word in ("--set", f"{name}={value}")
        ]
        with scratch(self.where.folder) as folder:
            process = BrokerProcess(f"{folder}/data", options, log_path=f"{folder}/broker.log")
            try:
                self.tell("starting a broker")
                await deferToThread(process.start)
                self._broker = process.pid
                yield process.address
            finally:
                self._broker = None
                await deferToThread(process.stop)

    @asynccontextmanager
    async def topic(self, address: str, partitions: int = 1) -> AsyncIterator[str]:
        """Give the name of a new topic, which is deleted at the end."""
        name = f"bench-{uuid.uuid4().hex}"
        admin = Admin(address)
        await admin.create(name, partitions)
        try:
            yield name
        finally:
            await admin.delete(name)
            await admin.close()

    async def _in_turn(
        self, workloads: Sequence[Workload], one: Callable[[Workload, int], Coroutine[Any, Any, Result]]
    ) -> list[list[Result]]:
        results: list[list[Result]] = [[] for _ in workloads]
        for number in range(self.rounds):
            for workload, its in zip(workloads, results, strict=True):
                its.append(await one(workload, number))
        return results

    async def _measured(self, name: str, workload: Workload, limits: _Limits, work: Awaitable[Moved]) -> Result:
        """Do the work between two measurements of the limit, and measure what both sides use meanwhile."""
        before = await limits.last_or_new()
        client = UsageMeter([os.getpid()])
        broker = None if self._broker is None else UsageMeter([self._broker])
        moved = await work
        used = client.read(), None if broker is None else broker.read()
        after = await limits.new()
        return Result(name, workload, moved, (before + after) / 2, *used)


@define(eq=False)
class _Limits:
    """The measurements of one limit: the one after a workload is also the one before the next."""

    measure: Callable[[], Awaitable[float]]
    _last: float | None = field(default=None, init=False)

    async def last_or_new(self) -> float:
        """Return the last measurement, or the first one."""
        return await self.new() if self._last is None else self._last

    async def new(self) -> float:
        """Measure."""
        self._last = await self.measure()
        return self._last


def _limit_bytes(workloads: Sequence[Workload]) -> int:
    return max(LEAST_LIMIT_BYTES, min(MOST_LIMIT_BYTES, max(each.total_bytes for each in workloads)))


def _filling(workload: Workload) -> Workload:
    """Return the workload that publishes what a consumer reads: the same number for each partition, flushed."""
    each = max(1, workload.messages // workload.partitions)
    batch = max(1, min(FILL_BATCH, FILL_BYTES // workload.size, each))
    return Workload(
        each // batch * batch * workload.partitions,
        workload.size,
        batch,
        acks=-1,
        compression=workload.compression,
        format=workload.format,
        partitions=workload.partitions,
    )


def middle(results: Sequence[T], key: Callable[[T], float]) -> T:
    """Return the result whose ``key`` is the median (the lower one of two)."""
    return sorted(results, key=key)[(len(results) - 1) // 2]
