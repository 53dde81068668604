"""Tests of replicas that do not know the epochs of their logs any more: they begin again."""

from __future__ import annotations

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.log.disk.names import EPOCHS, EPOCHS_COPY
from tests.broker.replication.test_replicas import ReplicaTestCase


class LostEpochsTests(ReplicaTestCase):
    """A partition of which retention has deleted all marks."""

    least = 2
    segment_bytes = 300

    def setUp(self) -> None:
        """Send messages, and delete the first ones on all brokers."""
        super().setUp()
        for number in range(20):
            self.send(b"message %02d " % number + b"x" * 40)
        leader, outcome = self.leader, list[object]()
        assert leader.store is not None
        log = self.logs()[leader.host]
        leader.store.delete_before(log, log.segment_list.starts[2], outcome.append)
        self.cluster.advance(2.0)
        self.assertEqual(outcome, [None])

    def version(self) -> int:
        """Return the version of the partition's state, as its leader knows it."""
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        return role.state.version

    def test_the_only_other_last_member_begins_again(self) -> None:
        """It does not wait for ever until it does not count: nobody but itself can say that it does not."""
        leader, (other, last) = self.leader, self.followers
        other.kill()
        self.cluster.advance(6.0)
        last.kill()
        self.cluster.advance(6.0)
        number = last.settings.id
        role = self.logs()[leader.host].replica
        assert isinstance(role, LeaderRole)
        self.assertEqual(role.state.state.last, (number,))
        before = self.version()
        for name in (EPOCHS, EPOCHS_COPY):
            inode = last.files._inode(f"/data/t-0/{name}")
            inode.data[-2] ^= 1
            inode.sync()
        last.start()
        self.cluster.advance(10.0)
        follower = self.logs()[last.host].replica
        assert isinstance(follower, FollowerRole)
        self.assertEqual((follower.trouble, follower.history.latest), ("", role.epoch))
        self.assertEqual(len(self.in_sync()), 2)
        self.assertEqual(len(self.contents()), 1)
        self.assertLess(self.version() - before, 5)
        self.send(b"afterwards")
