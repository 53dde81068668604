"""Measures replication: the price of replicas, the time from the death of a leader to the next send, catching up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from attrs import asdict, define, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread

from logd.bench.rates.limits import consume_limit
from logd.bench.rates.payloads import payloads
from logd.bench.rates.process_usage import processor_seconds
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess

BROKERS = 3
#: The shortest session that the tree grants: for this long a killed broker counts as live.
SESSION_MS = 4000
ONE, THREE, IDLE = "bench-one", "bench-three", "bench-idle"
#: Messages of a set, and sets that wait for their acknowledgement.
BATCH, IN_FLIGHT = 50, 64
LOOK_SECONDS = 0.05
IDLE_SECONDS = 20.0
#: The partitions of one idle topic: as many as are created at once, and fewer than may be.
IDLE_AT_ONCE = 1_000
#: Seconds until the logs of new partitions are on the disk, with their checkpoints.
SETTLE_SECONDS = 5.0
PATIENCE_SECONDS = 120.0


@frozen
class ReplicationRates:
    """Medians of the rounds, in messages a second, and seconds. A megabyte is a million bytes of log."""

    bench: str
    size: int
    rounds: int
    #: One replica, and three, each with acks=1 and acks=-1.
    one_acks_1: int
    one_acks_all: int
    three_acks_1: int
    three_acks_all: int
    ratio_acks_1: float
    ratio_acks_all: float
    #: From the kill of the leader to the next acknowledgement with acks=-1; a session lives for ``session_seconds``.
    kills: int
    session_seconds: float
    failover_seconds_median: float
    failover_seconds_worst: float
    #: A new empty broker, beside sendfile of a cached file to a process that reads.
    catch_up_megabytes: int
    catch_up_megabytes_per_second: float
    catch_up_ratio_to_sendfile: float
    #: Idle partitions of three replicas: processor time of all brokers, as a share of one processor.
    idle_partitions: int
    idle_processor_share: float

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON types."""
        return asdict(self)


@define(eq=False)
class ReplicationBench:
    """Three brokers on this machine, and a tree in a process of its own."""

    _reactor: Any
    _folder: str
    _size: int
    _seconds: float
    _rounds: int
    _kills: int
    _idle: int
    _tell: Callable[[str], None]

    async def run(self) -> ReplicationRates:
        """Measure. Raises LogdError if the brokers do not do what they should in time."""
        with scratch(self._folder) as folder:
            tree = CoordinationProcess(f"{folder}/tree")
            options = ("--set", f"zookeeper.session.ms={SESSION_MS}", "--set", "leader.balance.ms=-1")
            await deferToThread(tree.start)
            brokers = [
                BrokerProcess(f"{folder}/broker-{number}", ("--id", str(number), *options), zookeeper=tree.hosts)
                for number in range(BROKERS)
            ]
            try:
                for broker in brokers:
                    await deferToThread(broker.start)
                return await self._measure(folder, brokers)
            finally:
                for process in (*brokers, tree):
                    process.kill()

    async def _measure(self, folder: str, brokers: list[BrokerProcess]) -> ReplicationRates:
        addresses = ",".join(broker.address for broker in brokers)
        admin = Admin(addresses, reactor=self._reactor)
        try:
            await self._until(lambda: self._knows_all(admin))
            await admin.create(ONE, 1)
            await admin.create(THREE, 1, replicas=BROKERS)
            await self._until(lambda: self._is_whole(admin, THREE))
            rates: dict[tuple[str, int], list[float]] = {}
            for number in range(self._rounds):
                for topic in (ONE, THREE):
                    for acks in (1, -1):
                        self._tell(f"round {number + 1}: {topic}, acks {acks}")
                        rates.setdefault((topic, acks), []).append(await self._produce(addresses, topic, acks))
                        await self._until(lambda: self._is_whole(admin, THREE))
            figures = {key: median(found) for key, found in rates.items()}
            gaps = [await self._kill_leader(number, admin, addresses, brokers) for number in range(self._kills)]
            size, rate = await self._fill_empty(admin, brokers)
            limit = await deferToThread(consume_limit, folder, 1 << 30)
            idle = await self._idle_share(admin, brokers)
        finally:
            await admin.close()
        return ReplicationRates(
            "replication",
            self._size,
            self._rounds,
            round(figures[ONE, 1]),
            round(figures[ONE, -1]),
            round(figures[THREE, 1]),
            round(figures[THREE, -1]),
            round(figures[THREE, 1] / figures[ONE, 1], 3),
            round(figures[THREE, -1] / figures[ONE, -1], 3),
            self._kills,
            SESSION_MS / 1000,
            round(median(gaps), 2),
            round(max(gaps), 2),
            round(size / 1e6),
            round(rate / 1e6, 1),
            round(rate / limit, 3),
            self._idle,
            round(idle, 3),
        )

    async def _produce(self, addresses: str, topic: str, acks: int) -> float:
        """Return the messages a second that one producer has acknowledged."""
        message_set = MessageSet([Message(each) for each in payloads(BATCH, self._size)])
        count = 0
        async with Producer(addresses, acks=acks, reactor=self._reactor) as producer:
            await producer.send(topic, message_set, partition=0)
            begin = time.perf_counter()

            async def send_on() -> None:
                nonlocal count
                while time.perf_counter() - begin < self._seconds:
                    await producer.send(topic, message_set, partition=0)
                    count += BATCH

            await gatherResults([Deferred.fromCoroutine(send_on()) for _ in range(IN_FLIGHT)])
            return count / (time.perf_counter() - begin)

    async def _kill_leader(self, number: int, admin: Admin, addresses: str, brokers: list[BrokerProcess]) -> float:
        """Kill the leader; return the seconds until the next message is acknowledged."""
        self._tell(f"kill {number + 1} of {self._kills}")
        async with Producer(
            addresses, acks=-1, reactor=self._reactor, retry_delay=0.02, retry_delay_limit=0.2
        ) as producer:
            await producer.send(THREE, b"before", partition=0)
            killed = brokers[(await admin.describe(THREE)).partitions[0].leader]
            await deferToThread(killed.kill)
            begin = time.perf_counter()
            await producer.send(THREE, b"after", partition=0)
            gap = time.perf_counter() - begin
        await deferToThread(killed.start)
        await self._until(lambda: self._is_whole(admin, THREE))
        return gap

    async def _fill_empty(self, admin: Admin, brokers: list[BrokerProcess]) -> tuple[int, float]:
        """Replace a follower's disk; return the bytes that it copies, and its bytes a second."""
        self._tell("an empty broker catches up")
        leader = (await admin.describe(THREE)).partitions[0].leader
        follower = next(broker for number, broker in enumerate(brokers) if number != leader)
        await deferToThread(follower.stop)
        shutil.rmtree(follower.data)
        source = Path(brokers[leader].data) / f"{THREE}-0"
        size = sum(path.stat().st_size for path in source.glob("*.log"))
        await deferToThread(follower.start)
        begin = time.perf_counter()
        await self._until(lambda: self._is_whole(admin, THREE))
        return size, size / (time.perf_counter() - begin)

    async def _idle_share(self, admin: Admin, brokers: list[BrokerProcess]) -> float:
        """Return the processor time of all brokers with idle partitions, as a share of one processor."""
        if not self._idle:
            return 0.0
        self._tell(f"{self._idle} idle partitions")
        for number, first in enumerate(range(0, self._idle, IDLE_AT_ONCE)):
            name, partitions = f"{IDLE}-{number}", min(IDLE_AT_ONCE, self._idle - first)
            await admin.create(name, partitions, replicas=BROKERS)
            await self._until(partial(self._is_whole, admin, name))
        await sleep(self._reactor, SETTLE_SECONDS)
        processes = [broker.process.pid for broker in brokers if broker.process is not None]
        before = processor_seconds(processes)
        await sleep(self._reactor, IDLE_SECONDS)
        return (processor_seconds(processes) - before) / IDLE_SECONDS

    async def _knows_all(self, admin: Admin) -> bool:
        return len((await admin.metadata()).brokers) == BROKERS

    async def _is_whole(self, admin: Admin, topic: str) -> bool:
        partitions = (await admin.describe(topic)).partitions
        return all(len(each.in_sync) == BROKERS and not each.error for each in partitions)

    async def _until(self, holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        end = time.perf_counter() + PATIENCE_SECONDS
        while not await holds():
            if time.perf_counter() > end:
                raise LogdError(f"the brokers do not come to rest within {PATIENCE_SECONDS:g} seconds")
            await sleep(self._reactor, LOOK_SECONDS)
