"""Measures a mirror: its rate beside that of raw consuming, and the time of a message through the whole pipeline."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from statistics import median
from typing import Any, TypeVar

from attrs import asdict, define, frozen
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread

from logd.bench.mirror_processors import ProcessorTimes
from logd.bench.rates.consume import consume
from logd.bench.rates.patience import within
from logd.bench.rates.percentiles import milliseconds
from logd.bench.rates.process_usage import processor_seconds
from logd.bench.rates.produce import produce
from logd.bench.rates.workload import Workload
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError, UnknownTopic
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.mirror import MirrorProcess

T = TypeVar("T")

TOPIC, PACED = "bench-mirror", "bench-mirror-latency"
#: Seconds between looks at the end of the target's log, each of which costs the target and the bench a fraction of a
#: millisecond.
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
#: Messages before the latency is measured.
WARM_UP = 20


@frozen
class MirrorRates:
    """Medians of the rounds. A megabyte is a million bytes of log; milliseconds run from ``send`` to the consumer."""

    bench: str
    messages: int
    size: int
    rounds: int
    mirrored_megabytes_per_second: float
    mirrored_messages_per_second: int
    consumed_megabytes_per_second: float
    #: The rate of the mirror divided by that of raw consuming in the same round.
    ratio_to_consumed: float
    times: ProcessorTimes
    processors: int
    latency_messages: int
    delivered_ms_median: float
    delivered_ms_99: float

    def to_json(self) -> dict[str, object]:
        """Return every figure by its name, and a sentence about the ratio."""
        fields = asdict(self, filter=lambda attribute, _: attribute.name != "times")
        return {**fields, **self.times.figures(self.processors), "meaning": self.times.meaning(self.processors)}


@define(eq=False)
class MirrorBench:
    """Two clusters of one broker each, with the mirror as a process of its own. ``tell`` is called with each step."""

    reactor: Any
    folder: str
    workload: Workload
    rounds: int
    latency_messages: int
    tell: Callable[[str], None] = lambda _: None
    #: Seconds that each step may take; what is late is named in the error.
    patience: float = PATIENCE_SECONDS

    async def run(self) -> MirrorRates:
        """Measure. Raises LogdError if a server does not start or ends, or if a step takes longer than ``patience``."""
        with scratch(self.folder) as folder:
            source, target = (BrokerProcess(f"{folder}/{name}") for name in ("source", "target"))
            try:
                self.tell("starting two brokers")
                await gatherResults([deferToThread(each.start) for each in (source, target)], consumeErrors=True)
                return await self._measure(folder, source, target)
            finally:
                await deferToThread(target.stop)
                await deferToThread(source.stop)

    async def _measure(self, folder: str, source: BrokerProcess, target: BrokerProcess) -> MirrorRates:
        workload = self.workload
        await self._within("making the source's topics", self._topics_made(source))
        self.tell(f"publishing {workload.messages:,} messages to mirror")
        producing = produce(self.reactor, source.address, TOPIC, workload)
        filled = await self._within(f"publishing {workload.messages:,} messages", producing)
        consumed, mirrored, ratios, times = [], [], [], []
        for number in range(self.rounds):
            self.tell(f"round {number + 1} of {self.rounds}: consuming raw bytes")
            before = await self._consumed(source, filled.log_bytes)
            self.tell(f"round {number + 1} of {self.rounds}: mirroring")
            rate, mirroring = await self._mirrored(folder, source, target, number, filled.log_bytes)
            after = await self._consumed(source, filled.log_bytes)
            consumed.append((before[0] + after[0]) / 2)
            mirrored.append(rate)
            consuming = [(one + two) / 2 for one, two in zip(before[1], after[1], strict=True)]
            times.append(ProcessorTimes(*consuming, *mirroring))
            ratios.append(rate / consumed[-1])
        self.tell(f"sending {self.latency_messages:,} messages one by one through the pipeline")
        delivered = await self._latencies(folder, source, target)
        return MirrorRates(
            "mirror",
            filled.messages,
            workload.size,
            self.rounds,
            round(median(mirrored) / 1e6, 1),
            round(median(mirrored) * filled.messages / filled.log_bytes),
            round(median(consumed) / 1e6, 1),
            round(median(ratios), 3),
            ProcessorTimes.medians(times),
            len(os.sched_getaffinity(0)),
            self.latency_messages,
            milliseconds(delivered, 0.5),
            milliseconds(delivered, 0.99),
        )

    async def _within(self, what: str, waiting: Awaitable[T]) -> T:
        """Return the result of ``waiting``. Raises LogdError, which names ``what``, after the bench's patience."""
        return await within(self.reactor, self.patience, what, waiting)

    async def _topics_made(self, source: BrokerProcess) -> None:
        admin = Admin(source.address, reactor=self.reactor)
        try:
            await admin.create(TOPIC, self.workload.partitions)
            await admin.create(PACED, 1)
        finally:
            await admin.close()

    async def _consumed(self, source: BrokerProcess, total: int) -> tuple[float, list[float]]:
        """Return the bytes a second of a consumer that reads the topic as raw bytes.

        Return also the processor ms for each megabyte of the source and of this process, the consumer.
        """
        before, own = processor_seconds([source.pid]), time.process_time()
        reading = consume(self.reactor, source.address, TOPIC, self.workload, "raw", total / self.workload.messages)
        moved = await self._within(f"consuming {total:,} raw bytes", reading)
        used = processor_seconds([source.pid]) - before, time.process_time() - own
        return moved.log_bytes / moved.seconds, [_ms_per_megabyte(each, moved.log_bytes) for each in used]

    async def _mirrored(
        self, folder: str, source: BrokerProcess, target: BrokerProcess, number: int, total: int
    ) -> tuple[float, list[float]]:
        """Return the bytes a second of a mirror, from the last moment at which the target had nothing.

        Return also the processor ms for each megabyte of source, mirror and target.
        """
        copy = f"{TOPIC}-{number}"
        admin = Admin(target.address, reactor=self.reactor)
        try:
            async with self._mirror(
                folder, source, target, f"copy{number}", TOPIC, "--rename", f"{TOPIC}={copy}"
            ) as mirror:
                processes = source.pid, mirror.pid, target.pid
                used = [processor_seconds([each]) for each in processes]
                begun = time.perf_counter()
                deadline = begun + self.patience
                while True:
                    mirror.check_runs()
                    done = await self._stored(admin, copy)
                    now = time.perf_counter()
                    if done >= total:
                        break
                    if not done:
                        begun, used = now, [processor_seconds([each]) for each in processes]
                    if now > deadline:
                        raise LogdError(
                            f"{done:,} of {total:,} bytes were mirrored in {self.patience:g} s; the mirror's log ends: "
                            f"{mirror.end_of_log()}"
                        )
                    await sleep(self.reactor, LOOK_SECONDS)
                used = [processor_seconds([each]) - before for each, before in zip(processes, used, strict=True)]
            await self._within(f"deleting topic {copy}", admin.delete(copy))
        finally:
            await self._within("closing a client of the target", admin.close())
        return done / (now - begun), [_ms_per_megabyte(each, done) for each in used]

    async def _stored(self, admin: Admin, topic: str) -> int:
        """Return the bytes of the target's log that are on its disk; 0 before there is a log."""
        try:
            logs = await admin.describe_logs(topic, range(self.workload.partitions))
        except UnknownTopic:
            return 0
        return sum(each.visible_end for each in logs.values())

    async def _latencies(self, folder: str, source: BrokerProcess, target: BrokerProcess) -> list[float]:
        """Return the seconds of each message from ``send`` at the source to a consumer of the target."""
        async with self._mirror(folder, source, target, "paced", PACED) as mirror:
            producer = Producer(source.address, acks=-1, linger=0.0, reactor=self.reactor)
            consumer = Consumer(target.address, start="earliest", reactor=self.reactor)
            found = []
            try:
                first = producer.send(PACED, Message(bytes(self.workload.size)), partition=0)
                await self._within("sending the first message to the source", first)
                await self._made_by(mirror, target)
                (stream,) = consumer.create_message_streams(PACED, 1, partitions=[0])
                await self._within("the first message at the target", stream.get())
                for number in range(WARM_UP + self.latency_messages):
                    arriving = stream.get()
                    begin = time.perf_counter()
                    sent = producer.send(PACED, Message(bytes(self.workload.size)), partition=0)
                    await self._within(f"message {number + 1:,} at the target", arriving)
                    if number >= WARM_UP:
                        found.append(time.perf_counter() - begin)
                    await self._within(f"the acknowledgement of message {number + 1:,}", sent)
            finally:
                await self._within("closing the producer", producer.close())
                await self._within("closing the consumer", consumer.close())
        return found

    async def _made_by(self, mirror: MirrorProcess, target: BrokerProcess) -> None:
        """Wait until the mirror has made the topic of the latencies at the target."""
        admin = Admin(target.address, reactor=self.reactor)
        deadline = time.perf_counter() + self.patience
        try:
            while True:
                mirror.check_runs()
                with suppress(UnknownTopic):
                    await admin.describe(PACED)
                    return
                if time.perf_counter() > deadline:
                    raise LogdError(
                        f"the mirror made no topic {PACED} at the target in {self.patience:g} s; its log ends: "
                        f"{mirror.end_of_log()}"
                    )
                await sleep(self.reactor, LOOK_SECONDS)
        finally:
            await self._within("closing a client of the target", admin.close())

    @asynccontextmanager
    async def _mirror(
        self, folder: str, source: BrokerProcess, target: BrokerProcess, group: str, topic: str, *options: str
    ) -> AsyncIterator[MirrorProcess]:
        ends = ("--from", source.coordination, "--to", target.coordination)
        mirror = MirrorProcess((*ends, "--topics", topic, "--group", group, *options), f"{folder}/{group}.log")
        mirror.start()
        try:
            yield mirror
        finally:
            await deferToThread(mirror.stop)


def _ms_per_megabyte(seconds: float, log_bytes: int) -> float:
    return seconds * 1000 / (log_bytes / 1e6)
