"""Tests of replicas on a full disk."""

from __future__ import annotations

from logd.broker.replication.leader import LeaderRole
from tests.broker.replication.test_replicas import ReplicaTestCase


class FullDiskTests(ReplicaTestCase):
    """A disk that takes nothing for a while."""

    def test_a_leader_begins_once_there_is_room(self) -> None:
        """It is chosen while it can write neither the epoch file nor the mark; nothing else happens afterwards."""
        for room in (0, 60):  # the epoch file finds no room; it does, and the mark does not
            self.send(b"before")
            former, others = self.leader, self.followers
            for broker in others:
                broker.files.room = room
            former.kill()
            self.cluster.advance(8.0)
            roles = [log.replica for log in self.logs().values() if isinstance(log.replica, LeaderRole)]
            self.assertEqual([role.epoch_start for role in roles], [None])
            for broker in others:
                broker.files.room = None
            self.send(b"after")
            former.start()
            self.cluster.advance(5.0)
            self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
