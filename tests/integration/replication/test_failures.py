"""A replicated partition survives its brokers: real processes, killed, stopped and paused under load."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.leadership import NO_LEADER
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.metadata import PartitionMetadata
from tests.integration.clusters import CLOCK, LONG_SESSION_MS, ClusterTestCase

PARTITIONS = 2
#: Seconds for which producers may be blocked by one broker: its session lives for four, and the rest is for busy
#: machines. ``logd bench replication`` measures how long it takes.
BLOCKED_SECONDS = 30.0


class ReplicaTestCase(ClusterTestCase):
    """Three brokers, and a topic whose partitions each of them stores."""

    count = 3
    options: tuple[str, ...] = (
        *("--set", "replica.lag.ms=3000", "--set", "min.insync.replicas=2"),
        *("--set", "leader.balance.ms=1000", "--set", "stop.ms=5000"),
    )

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits for it
        """Start with no message acknowledged or seen."""
        self.acknowledged: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.unsettled = 0
        self.over = False
        #: The longest time between two acknowledgements of a partition, in seconds.
        self.blocked = 0.0
        self.last: dict[int, float] = {}
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        self.addCleanup(setattr, self, "over", True)
        return super().setUp()

    async def produce(self) -> None:
        """Send to all partitions, and note what is acknowledged."""
        producer = self.producer(acks=-1, delivery_timeout=100.0)
        serial = 0

        async def send(partition: int, payload: bytes) -> None:
            await producer.send("t", MessageSet([Message(payload)]), partition=partition)
            now = time.monotonic()
            self.blocked = max(self.blocked, now - self.last.get(partition, now))
            self.last[partition] = now
            self.acknowledged.add(payload)
            self.counts[partition] += 1

        while not self.over:
            for partition in range(PARTITIONS):
                serial += 1
                self.unsettled += 1
                self.go_on(send(partition, b"%d %d" % (partition, serial))).addBoth(self.settled)
            await deferLater(CLOCK, 0.005)

    def settled(self, _: object) -> None:
        """Count a send that has ended, well or not."""
        self.unsettled -= 1

    async def consume(self) -> None:
        """Note every message that arrives."""
        (stream,) = self.consumer().create_message_streams("t", 1)
        async for message in stream:
            assert message.payload is not None
            self.seen.add(message.payload)

    async def more(self, count: int = 50) -> None:
        """Wait until more messages of each partition are acknowledged."""
        before = dict(self.counts)
        await self.until(lambda: all(self.counts[n] > before[n] + count for n in range(PARTITIONS)))

    async def described(self, admin: Admin) -> tuple[PartitionMetadata, ...]:
        """Return the partitions of the topic."""
        return (await admin.describe("t")).partitions

    async def until_in_sync(self, admin: Admin) -> None:
        """Wait until all replicas of all partitions are in sync."""

        async def whole() -> bool:
            return all(len(each.in_sync) == self.count for each in await self.described(admin))

        while not await whole():
            await deferLater(CLOCK, 0.05)

    async def under_load(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Run ``work`` while messages pass; then every acknowledged one must be seen, and all replicas be equal."""
        admin = self.admin()
        await admin.create("t", PARTITIONS, replicas=self.count)
        producing = self.go_on(self.produce())
        self.go_on(self.consume())
        await self.until(lambda: len(self.seen) > 100)
        await work(admin)
        await self.more()
        self.over = True
        await gatherResults([producing])
        await self.until(lambda: not self.unsettled and self.acknowledged <= self.seen)
        await self.until_in_sync(admin)
        self.assertEqual(self.failures, [])
        for partition in range(PARTITIONS):
            await self.until(lambda partition=partition: len(set(self.contents(partition))) == 1)  # type: ignore[misc]
        self.assertLess(self.blocked, BLOCKED_SECONDS)

    def contents(self, partition: int) -> list[bytes]:
        """Return the content of a partition on each broker's disk."""
        folders = [Path(broker.data) / f"t-{partition}" for broker in self.brokers]
        return [b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders]

    async def leader(self, admin: Admin) -> int:
        """Return the index of the broker that leads partition 0, once one does."""
        while (leader := (await self.described(admin))[0].leader) == NO_LEADER:
            await deferLater(CLOCK, 0.05)
        return leader - 1


class FailureTests(ReplicaTestCase):
    """Nothing acknowledged with acks=-1 is lost, and all replicas are equal in the end."""

    async def test_the_leader_is_killed(self) -> None:
        """Another one leads, and the killed one catches up; a new empty disk under its id does too."""

        async def work(admin: Admin) -> None:
            killed = await self.leader(admin)
            await deferToThread(self.brokers[killed].kill)
            await self.more()
            survivor = self.admin(self.brokers[killed - 1])  # acknowledgements may be from before the kill
            while await self.leader(survivor) == killed:
                await deferLater(CLOCK, 0.05)
            await deferToThread(self.brokers[killed].start)
            await self.until_in_sync(admin)
            await self.more()
            other = await self.leader(admin)
            await deferToThread(self.brokers[other].kill)
            shutil.rmtree(self.brokers[other].data)
            await self.more()
            await deferToThread(self.brokers[other].start)
            await self.until_in_sync(admin)

        await self.under_load(work)

    async def test_the_leader_is_paused(self) -> None:
        """One that does not notice the time passing leads no more, and clients learn of it though it closes nothing."""

        async def work(admin: Admin) -> None:
            paused = await self.leader(admin)
            process = self.brokers[paused].process
            assert process is not None
            os.kill(process.pid, signal.SIGSTOP)
            try:
                await self.more()
            finally:
                os.kill(process.pid, signal.SIGCONT)
            await self.until_in_sync(admin)

        await self.under_load(work)


class StopTests(ReplicaTestCase):
    """A session that lasts longer than a busy machine takes for anything."""

    session_ms = LONG_SESSION_MS

    async def test_the_leader_is_stopped(self) -> None:
        """It hands over at once: nobody waits for the end of its session."""

        async def work(admin: Admin) -> None:
            stopped = self.brokers[await self.leader(admin)]
            self.assertEqual(await deferToThread(stopped.stop), 0)
            await self.more()
            self.assertLess(self.blocked, LONG_SESSION_MS / 2000)
            await deferToThread(stopped.start)
            await self.until_in_sync(admin)

        await self.under_load(work)
