"""Tests of the bytes that a follower asks for at a time, and of the partitions of one answer."""

from __future__ import annotations

from unittest import mock

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from logd.broker.replication import replica_requests
from logd.broker.replication.follower import MOST_WANTED_BYTES, FollowerRole
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchedPart, ReplicaFetchResponse, ReplicaPart
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.log.entries import plain

#: The partitions of a topic; some of them have the same leader.
PARTITIONS = 12


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


class ToldEndsTests(ReplicaTestCase):
    """A follower of many partitions to which nothing is sent."""

    def setUp(self) -> None:
        """Create them, and find what a follower would ask the leader of most of them for."""
        super().setUp()
        self.cluster.wait(self.admin.create("many", PARTITIONS, replicas=3))
        self.cluster.advance(2.0)
        leader, follower = self.cluster.brokers[:2]
        assert leader.broker is not None and follower.store is not None
        self.manager, self.store = leader.broker.replication, follower.store
        self.parts = tuple([part for number in range(PARTITIONS) if (part := self.part(number)) is not None])
        self.assertGreater(len(self.parts), 3)

    def part(self, number: int) -> ReplicaPart | None:
        """Return what the follower would ask about a partition; None if another broker leads it."""
        role, log = self.manager.leader("many", number), self.store.log("many", number)
        if role is None or log is None:
            return None
        last = role.history.before(log.end)
        return ReplicaPart("many", number, role.epoch, log.end, last, log.flushed_end, role.state.uuid)

    def ask(self, requests: ReplicaRequests, wait_ms: int, *parts: ReplicaPart) -> ReplicaFetchResponse | None:
        """Return the answer to a request; None if that waits."""
        answer = requests.fetch(ReplicaFetch(self.store.broker_id, self.store.instance, wait_ms, 1 << 20, parts))
        return None if isinstance(answer, Deferred) else answer

    def test_one_answer_tells_of_no_more_partitions_than_it_may_have(self) -> None:
        """The others come with the next answers, which do not wait for messages; then the leader waits again."""
        requests, told = ReplicaRequests(self.manager, Clock()), list[int]()
        with mock.patch.object(replica_requests, "MOST_SENT", 2):
            answer = self.ask(requests, 0, *self.parts)
            while answer is not None:
                self.assertLessEqual(len(answer.parts), 2)
                told += [part.partition for part in answer.parts]
                answer = self.ask(requests, 500)
        self.assertEqual(sorted(told), [part.partition for part in self.parts])
