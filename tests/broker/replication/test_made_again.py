"""Tests of a topic that is deleted and made again while some brokers still know the former one alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from unittest import mock

from logd.broker.replication import replica_fetcher
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_fetcher import ReplicaFetcher
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.errors import StaleLeaderEpoch
from logd.protocol.requests import requests
from logd.protocol.requests.apis import NATIVE_BY_NUMBER
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchV1, ReplicaPart
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

    def test_nothing_of_the_former_topic_on_a_connection_that_followed_it(self) -> None:
        """The follower knows the new topic, and could not say yet that it follows the former one no more."""
        follower = self.followers[0]
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole) and follower.store is not None
        connection = self.cluster.wait(self.cluster.connect(self.leader.address))
        told = []
        for uuid in (role.state.uuid, "another"):
            part = ReplicaPart("t", 0, role.epoch, 0, -1, 0, uuid)
            request = ReplicaFetchV1(follower.store.broker_id, follower.store.instance, 0, 1 << 20, (part,), ())
            answer = self.cluster.wait(connection.request(request))
            told += [(each.error, len(each.message_set) > 0) for each in answer.parts]
        connection.abort()
        self.assertEqual(told, [(0, True), (StaleLeaderEpoch.code, False)])  # both ask for the topic then

    def test_a_follower_that_could_not_say_that_it_follows_the_former_topic_no_more(self) -> None:
        """Two requests were under way, and the leader did not answer for a moment."""
        leader, early = self.leader, self.followers[0]
        role = self.logs()[early.host].replica
        assert isinstance(role, FollowerRole) and early.store is not None
        former, me = role.uuid, early.store.broker_id
        self.slow(leader)
        send_soon = ReplicaFetcher._send_soon

        def busy(fetcher: ReplicaFetcher) -> None:
            if fetcher._links.me != me or any(each.uuid != former for each in fetcher._roles.values()):
                send_soon(fetcher)

        with mock.patch.object(ReplicaFetcher, "_send_soon", busy):
            self.make_again(early)
            for _ in range(300):
                self.cluster.advance(0.01)
                log = self.logs().get(early.host)
                if log is not None and isinstance(log.replica, FollowerRole) and log.replica.uuid != former:
                    self.assertNotIn(b"former", self.content(early))
        self.send(b"latter")
        self.cluster.advance(3.0)
        self.assertEqual(len(self.contents()), 1)

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


class EarlierTreeTests(ReplicaTestCase):
    """A coordination tree in whose place an earlier copy of it was put, while the brokers run."""

    def setUp(self) -> None:
        """Change the in-sync set after the copy was made."""
        super().setUp()
        self.send(b"before")
        self.cluster.tree.kill()
        self.copy = deepcopy(self.cluster.tree.files.root)
        self.cluster.tree.start()
        self.cluster.advance(5.0)
        self.kill_for_a_while(self.followers[0])

    def kill_for_a_while(self, killed: MemoryBroker) -> None:
        """Let a broker be dead while something is sent."""
        killed.kill()
        self.send(b"without it")
        killed.start()
        self.cluster.advance(10.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def put_back(self) -> None:
        """Put the copy in the place of the tree; its sessions end before a broker reaches it."""
        self.cluster.tree.kill()
        self.cluster.tree.files.root = self.copy
        self.cluster.tree.start()
        links = [broker.coordination.link for broker in self.cluster.brokers if broker.coordination is not None]
        for reachable in (False, True):
            for link in links:
                link.reachable = reachable
            self.cluster.advance(15.0)

    def test_its_states_are_taken(self) -> None:
        """Their versions are lower than those that the brokers know. Leaders are chosen as before."""
        self.put_back()
        self.kill_for_a_while(self.leader)

    def test_a_leader_that_stays_the_leader(self) -> None:
        """It goes on in another epoch, as its changes of the in-sync set name versions that the tree does not have."""
        for broker in self.cluster.brokers:
            assert broker.broker is not None
            broker.broker.controller.stop()
        leader = self.leader
        self.put_back()
        self.assertIs(self.leader, leader)
        self.kill_for_a_while(self.followers[0])
