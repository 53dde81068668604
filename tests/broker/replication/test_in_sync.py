"""Tests of who counts as in sync."""

from __future__ import annotations

from logd.broker.replication.leader import LeaderRole
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.log.entries import plain


class InSyncTests(ReplicaTestCase):
    """Followers that may be behind for a second."""

    def test_a_follower_is_not_behind_because_nothing_was_sent_for_long(self) -> None:
        """The leader may look for those that are behind just when the first message after a pause is appended."""
        self.send(b"before")
        self.cluster.advance(5.0)  # five times the time for which a follower may be behind
        log = self.logs()[self.leader.host]
        role = log.replica
        assert isinstance(role, LeaderRole)
        version = role.state.version
        log.append([plain(b"after")], 1, -1)
        role.look()
        self.cluster.advance(1.0)
        self.assertEqual((role.state.version, self.in_sync()), (version, (0, 1, 2)))


class DeadLeaderTests(ReplicaTestCase):
    """A partition of three replicas."""

    def test_it_leaves_the_in_sync_set_without_another_message(self) -> None:
        """A producer that sends again what is stored already waits for that, and appends nothing."""
        self.send(b"before")
        self.leader.kill()
        self.cluster.advance(20.0)
        self.assertEqual(len(self.in_sync()), 2)
        log = self.logs()[self.leader.host]
        self.assertEqual(log.visible_end, log.end)
