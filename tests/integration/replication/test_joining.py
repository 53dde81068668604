"""A follower that is started again joins the in-sync replicas though producers go on, and its leader gathers."""

from __future__ import annotations

from collections import Counter

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.protocol.requests.metadata import PartitionMetadata
from tests.integration.clusters import CLOCK, ClusterTestCase

#: The partition of producers with acks -1 and 1, and the one of those with acks 1 alone.
BOTH, GATHERED = range(2)
#: Seconds between two messages of a producer.
PACE = 0.02
#: Messages after which a producer is taken to go on.
SOME = 20


class JoiningTests(ClusterTestCase):
    """Two brokers whose messages with acks=1 need not be flushed while a test runs."""

    options = (
        *("--set", "flush.ms=3600000", "--set", "flush.messages=1000000"),
        *("--set", "replica.lag.ms=3000", "--set", "leader.balance.ms=-1"),
    )

    async def test_a_follower_joins_while_producers_go_on(self) -> None:
        """It flushes what it copies at once: one that gathered it too would count as behind for ever."""
        admin, stored, leader, follower = self.admin(), Counter[tuple[int, int]](), 1, 2
        await admin.drain(follower)
        await admin.create("t", 2, replicas=2)
        await self.until_led(admin, leader, {leader, follower})
        for acks, partition in ((-1, BOTH), (1, BOTH), (1, GATHERED)):
            self.go_on(self.produce(stored, acks, partition))
        await self.more(stored)
        await deferToThread(self.brokers[follower - 1].kill)
        await self.until_led(admin, leader, {leader})
        await self.more(stored)
        await deferToThread(self.brokers[follower - 1].start)
        await self.until_led(admin, leader, {leader, follower})
        await self.more(stored)
        await self.until_led(admin, leader, {leader, follower})

    async def produce(self, stored: Counter[tuple[int, int]], acks: int, partition: int) -> None:
        """Send messages one after another, and count those that are acknowledged."""
        producer = self.producer(acks=acks, delivery_timeout=self.timeout)
        while True:
            await producer.send("t", b"%d" % stored[acks, partition], partition=partition)
            stored[acks, partition] += 1
            await deferLater(CLOCK, PACE)

    async def more(self, stored: Counter[tuple[int, int]]) -> None:
        """Wait until each producer has gone on."""
        before = Counter(stored)
        await self.until(lambda: len(stored) == 3 and all(stored[each] > before[each] + SOME for each in stored))

    async def until_led(self, admin: Admin, leader: int, in_sync: set[int]) -> None:
        """Wait until all partitions have a leader and some in-sync replicas."""
        while not all(each.leader == leader and {*each.in_sync} == in_sync for each in await self.partitions(admin)):
            await deferLater(CLOCK, 0.05)

    async def partitions(self, admin: Admin) -> tuple[PartitionMetadata, ...]:
        """Return the partitions of the topic."""
        return (await admin.describe("t")).partitions
