"""Tests of followers that are gone, or have a disk that has failed: producers do not wait until they are behind."""

from __future__ import annotations

from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_replicas import ReplicaTestCase


class OfflineFollowerTests(ReplicaTestCase):
    """A partition of three replicas that may be behind for long."""

    lag_ms = 60_000

    def setUp(self) -> None:
        """Send something to all of them."""
        super().setUp()
        self.send(b"before")
        self.follower = self.followers[0]

    def fail_disk(self, broker: MemoryBroker) -> float:
        """Let a sync of a follower's log fail; return the seconds that a producer waits for that message."""
        broker.files.fail_syncs = 1
        began = self.cluster.clock.seconds()
        self.send(b"meanwhile")
        self.assertIsNotNone(self.logs()[broker.host].offline)
        return self.cluster.clock.seconds() - began

    def test_producers_wait_for_a_moment(self) -> None:
        """It says that it follows no more, so the leader takes it out of the in-sync set."""
        number = self.follower.settings.id
        self.assertLess(self.fail_disk(self.follower), 1.5)
        self.assertNotIn(number, self.in_sync())
        self.follower.kill()
        self.follower.start()
        self.cluster.advance(10.0)
        in_sync = self.logs()[self.leader.host].leadership.in_sync
        self.assertEqual((in_sync, len(self.contents())), ((0, 1, 2), 1))


class SilentFollowerTests(ReplicaTestCase):
    """A follower whose machine loses its power: its connection to the leader stays, and nothing comes on it."""

    lag_ms = 60_000

    def test_producers_wait_until_its_session_with_the_tree_ends(self) -> None:
        """They do not wait for as long as one that is live may be behind."""
        self.send(b"before")
        follower = self.followers[0]
        self.cluster.network.block(self.leader.host, follower.host)
        follower.kill(power_lost=True)
        began = self.cluster.clock.seconds()
        self.send(b"meanwhile")
        self.assertLess(self.cluster.clock.seconds() - began, 6.0)
        self.cluster.network.heal()
        follower.start()
        self.cluster.advance(10.0)
        in_sync = self.logs()[self.leader.host].leadership.in_sync
        self.assertEqual((in_sync, len(self.contents())), ((0, 1, 2), 1))
