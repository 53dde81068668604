"""Tests of logd.broker.replication.leader: what becomes of a leader that has died, seen by the next one."""

from __future__ import annotations

from tests.broker.replication.test_replicas import ReplicaTestCase


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
