"""Tests of the bytes that a follower asks for at a time."""

from __future__ import annotations

from logd.broker.replication.follower import MOST_WANTED_BYTES, FollowerRole
from logd.protocol.requests.replica_fetch import ReplicaFetchedPart
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.log.entries import plain


class FetchSizeTests(ReplicaTestCase):
    """A follower, and answers that end within an entry."""

    def setUp(self) -> None:
        """Find a follower and its role, which is told by nobody but this test."""
        super().setUp()
        self.send(b"before")
        self.cluster.advance(1.0)
        follower = self.followers[0]
        assert follower.broker is not None
        self.log = self.logs()[follower.host]
        assert isinstance(self.log.replica, FollowerRole)
        self.role = self.log.replica
        follower.broker.replication.fetcher(self.role.leader).remove(self.role)

    def take(self, data: bytes) -> int:
        """Take an answer; return the bytes that the next one is to bring at least."""
        end, role = self.log.end, self.role
        part = ReplicaFetchedPart("t", 0, 0, role.epoch, end, 0, end, role.history.latest, -1, data)
        self.assertTrue(role.take(part))
        return role.wanted_bytes

    def test_entries_of_which_much_is_sent_twice(self) -> None:
        """The next answer may be twice as large; it is smaller again once the entries fit."""
        entry = plain(b"x" * 10_000)
        self.assertEqual(self.take(entry + entry[:6_000]), 2 * (len(entry) + 6_000))
        self.assertEqual(self.take(3 * entry + entry[:3_000]), 2 * (len(entry) + 6_000))
        self.assertEqual(self.take(3 * entry + entry[:100]), len(entry) + 6_000)
        for _ in range(20):
            wanted = self.take(entry)
        self.assertEqual(wanted, 0)

    def test_it_grows_no_further_for_that(self) -> None:
        """Larger answers cost more to copy than the part of an entry that is sent twice."""
        entry = plain(b"x" * (3 << 20))
        self.assertEqual(self.take(entry + entry[:-1]), MOST_WANTED_BYTES)

    def test_an_entry_that_does_not_fit_at_all(self) -> None:
        """It may be as large as it likes."""
        entry = plain(b"x" * (6 << 20))
        self.assertEqual(self.take(entry[: 5 << 20]), 10 << 20)
        self.assertEqual(self.take(entry), 5 << 20)
