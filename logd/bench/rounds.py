"""A whole bench: a broker of its own, rounds of limit and run in turn, and the middle round as the result."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from attrs import define, frozen
from twisted.internet.threads import deferToThread

from logd.bench.consume import consume
from logd.bench.latency import Latency, latency
from logd.bench.limits import consume_limit, produce_limit
from logd.bench.produce import produce
from logd.bench.workload import Result, Workload
from logd.client.admin.admin import Admin
from logd.testing.processes.broker import BrokerProcess

T = TypeVar("T")
#: Something to do with an address or a topic.
Work = Callable[[str], Coroutine[Any, Any, T]]

#: Bytes that the measurement of a limit moves, enough for about a second with any workload.
LIMIT_BYTES = 1 << 30
#: Messages in each set that is published for a consumer.
FILL_BATCH = 500


@frozen
class Where:
    """``folder`` is on the measured disk; ``broker`` is the address of a running broker, or None to start one."""

    folder: str
    broker: str | None = None


@define
class Bench:
    """Runs rounds against one broker; ``tell`` is called with a text about each step."""

    where: Where
    rounds: int = 3
    tell: Callable[[str], None] = lambda _: None

    async def produce(self, reactor: Any, workload: Workload) -> list[Result]:
        """Publish the workload in every round."""

        async def one(address: str) -> Result:
            self.tell("measuring the limit: socket to file")
            before = await deferToThread(produce_limit, self.where.folder, LIMIT_BYTES)
            self.tell(f"producing {workload.messages:,} messages")
            seconds = await self._with_topic(address, lambda topic: produce(reactor, address, topic, workload))
            after = await deferToThread(produce_limit, self.where.folder, LIMIT_BYTES)
            return Result.of("produce", workload, seconds, (before + after) / 2)

        return await self._rounds(one)

    async def consume(self, reactor: Any, workload: Workload, raw: bool) -> list[Result]:
        """Publish the workload once, then read it in every round."""
        filling = Workload(workload.messages, workload.size, min(FILL_BATCH, workload.messages), acks=-1)

        async def all_rounds(address: str, topic: str) -> list[Result]:
            self.tell(f"publishing {filling.messages:,} messages to read")
            await produce(reactor, address, topic, filling)
            results = []
            for number in range(self.rounds):
                self.tell("measuring the limit: sendfile to socket")
                before = await deferToThread(consume_limit, self.where.folder, 2 * LIMIT_BYTES)
                self.tell(f"round {number + 1} of {self.rounds}: consuming")
                seconds, messages, end = await consume(reactor, address, topic, raw)
                after = await deferToThread(consume_limit, self.where.folder, 2 * LIMIT_BYTES)
                read = Workload(messages or end // workload.entry_bytes, workload.size, 1, 0)
                name = "consume raw" if raw else "consume"
                results.append(Result.of(name, read, seconds, (before + after) / 2))
            return results

        return await self._with_broker(
            lambda address: self._with_topic(address, lambda topic: all_rounds(address, topic))
        )

    async def latency(self, reactor: Any, workload: Workload) -> list[Latency]:
        """Send and receive the workload's messages one by one in every round."""

        async def one(address: str) -> Latency:
            self.tell(f"sending {workload.messages:,} messages one by one")
            return await self._with_topic(address, lambda topic: latency(reactor, address, topic, workload))

        return await self._rounds(one)

    async def _rounds(self, one: Work[T]) -> list[T]:
        async def all_rounds(address: str) -> list[T]:
            return [await one(address) for _ in range(self.rounds)]

        return await self._with_broker(all_rounds)

    async def _with_broker(self, work: Work[T]) -> T:
        if self.where.broker is not None:
            return await work(self.where.broker)
        folder = tempfile.mkdtemp(prefix="logd-bench-", dir=self.where.folder)
        process = BrokerProcess(f"{folder}/data", log_path=f"{folder}/broker.log")
        try:
            self.tell("starting a broker")
            await deferToThread(process.start)
            return await work(process.address)
        finally:
            await deferToThread(process.stop)
            shutil.rmtree(folder, ignore_errors=True)

    async def _with_topic(self, address: str, work: Work[T]) -> T:
        topic = f"bench-{uuid.uuid4().hex}"
        admin = Admin(address)
        await admin.create(topic)
        try:
            return await work(topic)
        finally:
            await admin.delete(topic)
            await admin.close()


def middle(results: Sequence[T], key: Callable[[T], float]) -> T:
    """Return the result whose ``key`` is the median (the lower one of two)."""
    return sorted(results, key=key)[(len(results) - 1) // 2]
