"""Tests of logd.broker.replication.replica: a broker that is chosen to lead while its log is offline."""

from __future__ import annotations

from logd.broker.replication.leader import LeaderRole
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase


class OfflineLeaderTests(ReplicaTestCase):
    """A partition of three replicas, of which two are in sync: the log of one cannot be flushed, and the other dies."""

    def setUp(self) -> None:
        """Let the broker whose log is offline be chosen."""
        super().setUp()
        self.send(b"before")
        self.dead, (self.chosen, self.spare) = self.leader, self.followers
        self.spare.kill()
        self.cluster.advance(10.0)
        self.assertEqual(len(self.in_sync()), 2)
        self.chosen.files.fail_syncs = 1
        self.send(b"perhaps lost", acks=1)
        self.cluster.advance(0.1)
        self.dead.kill(power_lost=True)
        self.cluster.advance(8.0)
        log = self.logs()[self.chosen.host]
        self.assertIsNotNone(log.offline)
        self.assertNotIsInstance(log.replica, LeaderRole)

    def start_again(self, *brokers: MemoryBroker) -> None:
        """Start brokers again, and give them time to come into sync."""
        for broker in brokers:
            broker.kill()
            broker.start()
        self.cluster.advance(10.0)

    def test_it_stays_in_sync_while_no_other_member_is_live(self) -> None:
        """The disk of the other one may be lost; then this log alone has what was acknowledged, after a restart."""
        self.dead.files = MemoryFiles()
        self.start_again(self.dead)
        self.start_again(self.chosen, self.spare)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        (content,) = self.contents()
        self.assertIn(b"before", content)

    def test_it_gives_way_once_another_member_is_live_again(self) -> None:
        """Nobody has to restart it for the partition to be led."""
        self.start_again(self.dead)
        self.assertIs(self.leader, self.dead)
        self.send(b"after")
        self.start_again(self.chosen, self.spare)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)
