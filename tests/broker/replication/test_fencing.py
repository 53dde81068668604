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

    def test_a_divergence_inside_an_entry_cuts_all_of_it(self) -> None:
        """It is the end of an epoch that the follower never saw, whose bytes it has others for."""
        other = next(each for each in self.followers if each is not self.follower)
        assert other.clock is not None
        other.clock.pause()  # so that nothing more is visible
        sent = self.send(b"unseen by readers", acks=1)
        self.cluster.advance(0.3)
        self.assertEqual(self.log.end, sent.next_position)
        assert self.follower.broker is not None
        self.follower.broker.replication.fetcher(self.role.leader).remove(self.role)
        self.role.tasks.truncate(sent.next_position - 3)
        self.cluster.advance(0.5)
        self.assertEqual((self.role.trouble, self.role.log.end), ("", sent.next_position))
        other.clock.resume()

    def test_only_what_readers_see_is_fetched_ahead(self) -> None:
        """A fetch tells a leader what is appended here, for producers with acks=2; nobody waits for what is visible."""
        data, asked = plain(b"a message"), list[int]()

        def ahead() -> None:
            asked.append(self.role.part().position)

        unseen = self.answer(self.role.epoch, data)
        self.assertTrue(self.role.take(unseen, ahead))
        self.assertEqual(asked, [], "an entry that is not written was reported as appended")
        seen = self.answer(self.role.epoch, data)
        end = self.log.end + len(data)
        self.assertTrue(self.role.take(seen._replace(visible_end=end), ahead))
        self.assertEqual((asked, self.log.end), ([end], end))

    def test_a_log_that_counts_is_not_begun_again(self) -> None:
        """A member of the in-sync set keeps its messages until the leader has taken it out of the set."""
        self.role.tasks.restart(0)
        self.cluster.advance(0.2)
        self.assertGreater(self.role.log.end, 0)
        self.assertIn("does not count", self.role.trouble)

    def test_a_damaged_entry_is_not_appended(self) -> None:
        """A leader whose disk flips bits does not spread that to its followers."""
        end = self.log.end
        damaged = bytearray(plain(b"a message"))
        damaged[-1] ^= 1
        self.assertFalse(self.role.take(self.answer(self.role.epoch, bytes(damaged))))
        self.assertEqual(self.log.end, end, "a damaged entry was appended")
        self.assertIn("bad entry", self.role.trouble)
