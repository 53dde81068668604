"""Tests of a topic that is deleted and made again while some brokers still know the former one alone."""

from __future__ import annotations

from typing import Any
from unittest import mock

from logd.broker.replication import replica_fetcher
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.protocol.requests import requests
from logd.protocol.requests.apis import NATIVE_BY_NUMBER
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchV1
from logd.protocol.requests.requests import Unsupported
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.simulation.replication.contents import bytes_of


class MadeAgainTests(ReplicaTestCase):
    """Both topics are in epoch 0, and their logs begin alike."""

    def setUp(self) -> None:
        """Send a message to the former topic."""
        super().setUp()
        self.send(b"former")
        self.cluster.advance(1.0)

    def slow(self, broker: MemoryBroker) -> None:
        """Let a broker hear of all changes of the tree a second later."""
        assert broker.coordination is not None
        broker.coordination.link.delay = lambda: 1.0

    def make_again(self, broker: MemoryBroker) -> None:
        """Delete the topic and make it again by one broker, with the same replicas."""
        assert broker.broker is not None
        entry = broker.broker.topics.get("t")
        assert entry is not None
        administration = broker.broker.administration
        self.cluster.wait(administration.delete("t"))
        self.cluster.wait(administration.create("t", 1, {}, brokers=dict(entry.partitions)))

    def content(self, broker: MemoryBroker) -> bytes:
        """Return the log of a broker."""
        log = self.logs()[broker.host]
        return bytes_of(broker, log, log.start, log.end)

    def test_a_follower_of_the_former_topic_has_nothing_of_the_new_one(self) -> None:
        """Messages acknowledged with acks=-1 are on the disks of all in-sync replicas, whatever those have flushed."""
        leader, late = self.leader, self.followers[0]
        self.slow(late)
        self.make_again(leader)
        self.cluster.advance(0.2)
        self.assertIs(self.leader, leader)
        sending = self.cluster.producer(acks=-1).send("t", b"latter")
        while not sending.called:
            self.cluster.advance(0.01)
        server = self.cluster.tree.server
        assert server is not None
        state = PartitionState.decode(bytes(server.tree.nodes[paths.partition_state("t", 0)].data))
        for broker in self.cluster.brokers:
            if broker.settings.id in state.in_sync:
                self.assertIn(b"latter", self.content(broker))

    def test_a_leader_of_the_former_topic_gives_nothing_to_the_new_one(self) -> None:
        """Its bytes would be messages of another topic."""
        leader, early = self.leader, self.followers[0]
        self.slow(leader)
        self.make_again(early)
        for _ in range(300):
            self.cluster.advance(0.01)
            log = self.logs().get(early.host)
            if log is not None:
                self.assertNotIn(b"former", self.content(early))
        self.send(b"latter")
        self.cluster.advance(3.0)
        self.assertEqual(len(self.contents()), 1)

    def test_a_leader_of_an_earlier_release(self) -> None:
        """It knows no uuids, and is followed without them."""
        known = {key: api for key, api in NATIVE_BY_NUMBER.items() if api.request is not ReplicaFetchV1}
        follower, _ = self.followers
        follower.kill()
        with mock.patch.object(requests, "NATIVE_BY_NUMBER", known):
            follower.start()
            self.cluster.advance(5.0)
            self.send(b"to an old leader")
            self.cluster.advance(2.0)
            self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def test_followers_of_an_earlier_release(self) -> None:
        """They name no uuids, and have what is acknowledged when the leader is dead."""
        leader, followers = self.leader, self.followers
        with mock.patch.object(replica_fetcher, "ReplicaFetchV1", ReplicaFetch):
            for follower in followers:
                follower.kill()
                follower.start()
            self.cluster.advance(5.0)
            sent = self.send(b"to old followers")
            self.assertEqual({log.flushed_end for log in self.logs().values()}, {sent.next_position})
            leader.kill(power_lost=True)
            self.send(b"to an old leader")
        for follower in followers:
            self.assertIn(b"to old followers", self.content(follower))
            self.assertIn(b"to an old leader", self.content(follower))

    def test_a_leader_that_is_upgraded_once_it_has_refused_uuids(self) -> None:
        """It is told them from its next start on, however soon that is."""
        known = {key: api for key, api in NATIVE_BY_NUMBER.items() if api.request is not ReplicaFetchV1}
        leader, (follower, _) = self.leader, self.followers
        refused, told = list[Unsupported](), set[type]()
        fetch = ReplicaRequests.fetch

        def refuse(*values: int) -> Unsupported:
            refused.append(Unsupported(*values))
            return refused[-1]

        def note(session: ReplicaRequests, request: ReplicaFetch | ReplicaFetchV1) -> Any:
            told.add(type(request))
            return fetch(session, request)

        follower.kill()
        with (
            mock.patch.object(requests, "NATIVE_BY_NUMBER", known),
            mock.patch.object(requests, "Unsupported", refuse),
        ):
            follower.start()
            while not refused:
                self.cluster.advance(0.001)
            self.cluster.advance(0.001)
            leader.kill()
        with mock.patch.object(ReplicaRequests, "fetch", note):
            leader.start()
            self.cluster.advance(10.0)
        self.assertEqual((told, self.in_sync()), ({ReplicaFetchV1}, (0, 1, 2)))
