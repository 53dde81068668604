"""The broker that coordinates a group is killed in the middle of commits: none that was acknowledged is lost."""

from __future__ import annotations

from logd.coord import paths
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from tests.integration.clusters import CLOCK
from tests.integration.kafka_groups.rig import KafkaClusterTestCase, MemberProcess


class KilledCoordinatorTests(KafkaClusterTestCase):
    """Two brokers, and one member that commits all the time."""

    async def test_commits_go_on_at_the_other_broker(self) -> None:
        """Behind what was stored, as the tree shows before and after."""
        await self.admin().create("t", 4)
        tree = ZooKeeperCoordination(CLOCK, CoordinationSettings(hosts=self.tree.hosts))
        self.addCleanup(tree.close)
        await tree.connect()
        member = self.member("committer")
        await self.until(lambda: member.counted("stored") > 200)
        coordinator = int((await tree.get(paths.group_coordinator("g")))[0])
        self.kill(self.brokers[coordinator - 1])
        await self.check(tree, member)
        before = member.counted("stored")
        await self.until(lambda: member.counted("stored") > before + 100)
        self.assertNotEqual(int((await tree.get(paths.group_coordinator("g")))[0]), coordinator)
        await self.check(tree, member)

    async def check(self, tree: ZooKeeperCoordination, member: MemberProcess) -> None:
        """Check that no position in the tree is before the last one that was acknowledged."""
        acknowledged = {int(event[1]): int(event[2]) for event in member.events if event[0] == "stored"}
        self.assertEqual(sorted(acknowledged), list(range(4)))
        for partition, position in acknowledged.items():
            stored, _ = await tree.get(paths.group_offset("g", "t", partition))
            self.assertGreaterEqual(int(stored), position)
