"""Tests of what a follower takes from a leader: bytes of its own epoch alone, and no damaged entry."""

from __future__ import annotations

from logd.broker.replication.follower import FollowerRole
from logd.protocol.requests.replica_fetch import ReplicaFetchedPart
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.log.entries import plain


class FollowerGuardTests(ReplicaTestCase):
    """A follower, and answers that come too late or damaged."""

    def setUp(self) -> None:
        """Find a follower and its role."""
        super().setUp()
        self.send(b"before")
        self.cluster.advance(1.0)
        self.follower = self.followers[0]
        self.log = self.logs()[self.follower.host]
        assert isinstance(self.log.replica, FollowerRole)
        self.role = self.log.replica

    def answer(self, leader_epoch: int, data: bytes) -> ReplicaFetchedPart:
        """Return an answer with bytes behind the follower's log."""
        end = self.log.end
        return ReplicaFetchedPart("t", 0, 0, leader_epoch, end, 0, end, self.role.history.latest, -1, data)

    def test_an_answer_of_another_epoch_is_not_used(self) -> None:
        """It was sent before the leader was deposed and elected again: its bytes may be gone."""
        end = self.log.end
        for epoch in (self.role.epoch - 1, self.role.epoch + 1):
            self.assertFalse(self.role.take(self.answer(epoch, plain(b"of another epoch"))))
            self.assertEqual(self.log.end, end, "bytes of another epoch were appended")
        self.assertTrue(self.role.take(self.answer(self.role.epoch, plain(b"of this one"))))

    def test_a_damaged_entry_is_not_appended(self) -> None:
        """A leader whose disk flips bits does not spread that to its followers."""
        end = self.log.end
        damaged = bytearray(plain(b"a message"))
        damaged[-1] ^= 1
        self.assertFalse(self.role.take(self.answer(self.role.epoch, bytes(damaged))))
        self.assertEqual(self.log.end, end, "a damaged entry was appended")
        self.assertIn("bad entry", self.role.trouble)
