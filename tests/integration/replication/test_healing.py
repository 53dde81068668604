"""Damaged replicas of real brokers are healed with the bytes of others, while messages pass and none is restarted."""

from __future__ import annotations

from pathlib import Path

from logd.client.admin.admin import Admin
from tests.integration.replication.test_failures import ReplicaTestCase


class HealingTests(ReplicaTestCase):
    """Three brokers that verify their small segments all the time."""

    options = (
        *ReplicaTestCase.options,
        *("--set", "segment.bytes=5000", "--set", "verify.ms=300", "--set", "verify.bytes.per.second=50000000"),
    )

    def closed_segments(self, index: int) -> list[Path]:
        """Return the segments of partition 0 on a broker to which nothing is appended any more."""
        return sorted((Path(self.brokers[index].data) / "t-0").glob("*.log"))[:-1]

    async def harm(self, index: int) -> None:
        """Flip a bit of a closed segment, and wait until all bytes of it are as they were."""
        await self.until(lambda: len(self.closed_segments(index)) > 2)
        segment = self.closed_segments(index)[1]
        sound, former = segment.read_bytes(), segment.stat().st_ino
        with segment.open("r+b") as file:
            file.seek(len(sound) // 2)
            file.write(bytes([sound[len(sound) // 2] ^ 16]))
        await self.until(lambda: segment.stat().st_ino != former)
        self.assertEqual(segment.read_bytes(), sound)

    async def test_a_follower_and_a_leader_are_healed(self) -> None:
        """Every acknowledged message is seen, and the files are equal in the end."""

        async def work(admin: Admin) -> None:
            leader = await self.leader(admin)
            await self.harm((leader + 1) % self.count)
            await self.harm(await self.leader(admin))
            await self.more(10)

        await self.under_load(work)
        for broker in self.brokers:  # they go on, and may be writing a checkpoint at the moment
            await self.until(lambda broker=broker: not list(Path(broker.data).glob("t-*/*.tmp")))  # type: ignore[misc]
