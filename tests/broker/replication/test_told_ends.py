"""Tests of the ends that a leader tells a follower without bytes."""

from __future__ import annotations

from unittest import mock

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from logd.broker.replication import replica_requests
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchResponse, ReplicaPart
from tests.broker.replication.test_replicas import ReplicaTestCase

PARTITIONS = 12


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
