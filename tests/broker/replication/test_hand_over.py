"""Tests of the leaderships of a broker that stops in order."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.errors import NotLeader
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_replicas import ReplicaTestCase


class SlowDisksTestCase(ReplicaTestCase):
    """Three brokers whose disks and network can be made slow."""

    def setUp(self) -> None:
        """Start the brokers again, with disks that can be made slow."""
        super().setUp()
        #: Seconds of each wait for a disk, by host; seconds of each way through the network.
        self.delays: dict[str, float] = {}
        self.latency = 0.0001
        self.cluster.network.delay = lambda: self.latency
        for broker in self.cluster.brokers:
            self.slow_from_now_on(broker)
        self.cluster.advance(6.0)
        self.send(b"before")
        self.cluster.advance(2.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))

    def slow_from_now_on(self, broker: MemoryBroker) -> None:
        """Start a broker again with a disk whose delay is in ``delays``."""
        self.cluster.wait(broker.stop())
        broker.disk_delay = lambda: self.delays.get(broker.host, 0.001)
        broker.start()
        self.cluster.advance(3.0)

    def state(self, topic: str = "t") -> PartitionState:
        """Return the partition's state in the tree."""
        server = self.cluster.tree.server
        assert server is not None
        return PartitionState.decode(bytes(server.tree.nodes[paths.partition_state(topic, 0)].data))


class HandOverTests(SlowDisksTestCase):
    """A leader is told to stop, and something happens at the same time."""

    def check_led_by_another(self, stopped: MemoryBroker, stopping: Deferred[Any], topic: str = "t") -> None:
        """Wait for the end of a stop: another broker leads before the stopped one leaves the tree.

        Afterwards the controller would choose a leader, if there is a controller then.
        """
        server, number, leader = self.cluster.tree.server, stopped.settings.id, -1
        assert server is not None and number is not None and stopped.coordination is not None
        stopped.coordination.link.delay = lambda: 0.02
        for _ in range(2000):
            if paths.broker(number) not in server.tree.nodes:
                break
            leader = self.state(topic).leader
            self.cluster.advance(0.005)
        self.assertNotIn(paths.broker(number), server.tree.nodes)
        self.assertNotIn(leader, (number, -1))
        self.cluster.wait(stopping)

    def test_a_follower_of_a_busy_leader(self) -> None:
        """It copies nothing any more when it flushes the last time: that would never end."""
        follower, producer = self.followers[0], self.cluster.producer(acks=1)
        self.delays = {broker.host: 0.05 for broker in self.cluster.brokers}
        began, stopping = self.cluster.clock.seconds(), follower.stop()
        while not stopping.called and self.cluster.clock.seconds() < began + 5.0:
            producer.send("t", b"x").addErrback(lambda _: None)
            self.cluster.advance(0.02)
        self.assertTrue(self.successResultOf(stopping).clean)

    def test_a_follower_that_needs_more_than_a_second(self) -> None:
        """It is the only one, and is still flushing what the leader has: the stop has time enough to wait for it."""
        follower, other = self.followers
        leader = self.leader
        self.cluster.wait(other.stop())
        self.cluster.advance(2.0)
        self.delays[follower.host] = 1.0
        self.send(b"meanwhile", acks=1)
        self.check_led_by_another(leader, leader.stop())

    def test_the_in_sync_set_changes_at_the_same_time(self) -> None:
        """The state has another version than the leader knows: it reads that one, and tries again."""
        leader, tree = self.leader, self.followers[0].coordination
        assert tree is not None
        tree.set(paths.partition_state("t", 0), self.state().encode())
        self.check_led_by_another(leader, leader.stop())

    def test_a_state_that_was_not_read_yet(self) -> None:
        """A topic was created a moment ago, with this broker as the leader, which does not know that yet."""
        leader, admin = self.followers[0], self.cluster.admin()
        assert leader.coordination is not None and leader.broker is not None
        topics = leader.broker.topics
        leader.coordination.link.delay = lambda: 0.1
        entry = None
        for number in range(12):  # until one is created whose first replica is this broker
            name = f"new-{number}"
            creating = admin.create(name, 1, replicas=3)
            while (entry := topics.get(name)) is None:
                self.cluster.advance(0.005)
            if entry.partitions[0][0] == leader.settings.id:
                break
            self.cluster.wait(creating)
        self.assertFalse(leader.broker.replication.states.is_read(name, 0))
        self.check_led_by_another(leader, leader.stop(), name)

    def test_a_leadership_that_begins_during_the_stop(self) -> None:
        """A broker that is back at once is to lead again; it stops before it has begun."""
        leader = self.leader
        number = leader.settings.id
        assert number is not None
        epoch = self.state().leader_epoch
        leader.kill()
        self.delays[leader.host] = 0.5
        leader.start()

        def is_about_to_lead() -> bool:
            assert leader.broker is not None and leader.store is not None
            manager = leader.broker.replication
            if not leader.broker.ready:
                return False
            known, replica = manager.states.get("t", 0), manager.replica("t", 0)
            leads = known is not None and known.state.leads(number, leader.store.instance)
            return leads and replica is not None and not isinstance(replica.role, LeaderRole)

        for _ in range(1000):
            if is_about_to_lead():
                break
            self.cluster.advance(0.005)
        self.assertTrue(is_about_to_lead())
        self.assertEqual((self.state().leader, self.state().leader_epoch), (number, epoch))
        self.check_led_by_another(leader, leader.stop())

    def test_a_damaged_leader_that_is_giving_way(self) -> None:
        """Its time for that ends during the stop: messages that it took from then on the successor would lack."""
        leader = self.leader
        assert leader.broker is not None
        manager = leader.broker.replication
        role = manager.leader("t", 0)
        assert role is not None
        for follower in self.followers:
            self.delays[follower.host] = 1.0
        self.send(b"meanwhile", acks=1)
        giving_way = Deferred.fromCoroutine(manager.give_way(role, 0.2))
        self.cluster.advance(0.1)
        stopping = leader.stop()
        self.cluster.advance(0.2)
        self.assertFalse(self.successResultOf(giving_way))
        self.assertFalse(role.ended)
        self.assertIsInstance(role.refusal, NotLeader)
        self.check_led_by_another(leader, stopping)

    def test_a_tree_that_was_away_from_the_start(self) -> None:
        """No state was ever read, so nothing is led here, and nothing is waited for."""
        leader = self.leader
        self.cluster.tree.kill()
        leader.kill()
        leader.start()
        self.cluster.advance(1.0)
        assert leader.broker is not None
        began = self.cluster.clock.seconds()
        handing_over = Deferred.fromCoroutine(leader.broker.replication.hand_over(began + 1.0))
        self.cluster.wait(handing_over)
        self.assertEqual(self.cluster.clock.seconds(), began)

    def test_a_tree_that_does_not_answer(self) -> None:
        """The stop goes on without it, and has the rest of its time for the clients and the flush."""
        leader = self.leader
        began, limit = self.cluster.clock.seconds(), leader.settings.stop_ms / 1000
        self.cluster.tree.kill()
        self.assertTrue(self.cluster.wait(leader.stop()).clean)
        self.assertLess(self.cluster.clock.seconds() - began, limit * 0.9)

    def test_another_controller_is_there_at_once(self) -> None:
        """A broker that dies during the stop, or whose leaderships nobody could take, is not left without one."""

        async def never(manager: ReplicaManager, until: float) -> None:
            await Deferred()

        self.patch(ReplicaManager, "hand_over", never)
        (former,) = self.controllers()
        stopping = former.stop()
        self.cluster.advance(1.0)
        self.assertNotIn(former, self.controllers())
        self.assertEqual(len(self.controllers()), 1)
        self.assertNoResult(stopping)
        self.cluster.wait(stopping)

    def controllers(self) -> list[MemoryBroker]:
        """Return the brokers that are the controller."""
        brokers = [each for each in self.cluster.brokers if each.broker is not None]
        return [each for each in brokers if each.broker is not None and each.broker.controller.epoch is not None]
