"""Tests of leaders that hand over as planned: what was acknowledged before all replicas had it is not lost."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher

from logd.broker.replication import leader
from logd.broker.replication.epoch_cache import EpochCache
from logd.leadership import NO_LEADER
from logd.log.epochs.history import EpochHistory
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_hand_over import SlowDisksTestCase
from tests.broker.rig import Events

#: Seconds that a move may take: the controller looks once a second, and waits for the leader for two.
PATIENCE = 6.0


class PlannedMoveTests(SlowDisksTestCase):
    """Messages with acks=1 come all the time; followers have them somewhat later, and never catch up quite."""

    def setUp(self) -> None:
        """Have followers that are some way off, and need a while for each piece."""
        super().setUp()
        self.first, self.number = self.leader, self.number_of(self.leader)
        self.latency = 0.05
        for follower in self.followers:
            self.delays[follower.host] = 0.1
        self.producer = self.cluster.producer(acks=1)
        self.acknowledged: list[bytes] = []
        self.sent = 0

    def number_of(self, broker: MemoryBroker) -> int:
        """Return the id of a broker."""
        number = broker.settings.id
        assert number is not None
        return number

    def flow(self, seconds: float) -> None:
        """Send a message every 20 ms."""
        until = self.cluster.clock.seconds() + seconds
        while self.cluster.clock.seconds() < until:
            self.sent += 1
            payload = b"message %d." % self.sent
            self.producer.send("t", payload).addCallbacks(
                lambda _, payload=payload: self.acknowledged.append(payload), lambda _: None
            )
            self.cluster.advance(0.02)

    def move(self, asking: Deferred[Any]) -> MemoryBroker:
        """Send until another broker leads, and after that; check that it has all messages, and return it."""
        self.cluster.wait(asking)
        before = self.state().leader
        until = self.cluster.clock.seconds() + PATIENCE
        while self.state().leader == before and self.cluster.clock.seconds() < until:
            self.flow(0.1)
        self.assertNotEqual(self.state().leader, before)
        self.flow(1.0)
        self.delays.clear()
        self.cluster.advance(5.0)
        (content,) = self.contents()
        lost = [each for each in self.acknowledged if each not in content]
        self.assertEqual(lost, [])
        self.assertGreater(len(self.acknowledged), 50)
        return self.leader

    def test_a_drained_broker(self) -> None:
        """It hands over once a follower has everything; meanwhile it takes no messages."""
        self.flow(1.0)
        self.assertIsNot(self.move(self.admin.drain(self.number)), self.first)

    def test_a_preferred_leader_that_an_operator_elects(self) -> None:
        """The leader at the time lets it lead."""
        self.cluster.wait(self.admin.drain(self.number))
        self.cluster.advance(3.0)
        self.cluster.wait(self.admin.drain(self.number, False))
        for broker in self.cluster.brokers:
            self.delays[broker.host] = 0.001 if broker is self.leader else 0.1
        self.flow(1.0)
        self.assertIs(self.move(self.admin.elect("t")), self.first)

    def test_a_leader_that_stores_the_partition_no_more(self) -> None:
        """A follower leads before the replica goes."""
        numbers = [self.number_of(broker) for broker in self.followers]
        self.flow(1.0)
        self.assertIsNot(self.move(self.admin.reassign("t", {0: numbers})), self.first)
        self.assertEqual(sorted(self.state().in_sync), sorted(numbers))

    def test_a_leader_that_does_not_answer(self) -> None:
        """The controller lets the successor lead after some seconds; what all had is there."""
        self.send(b"everywhere")
        self.patch(leader.LeaderRole, "hand_to_successor", lambda role, give_way: None)
        self.cluster.wait(self.admin.drain(self.number))
        self.cluster.advance(PATIENCE)
        self.assertIsNot(self.leader, self.first)
        self.delays.clear()
        self.cluster.advance(5.0)
        (content,) = self.contents()
        self.assertIn(b"everywhere", content)

    def test_a_leader_that_is_about_to_begin(self) -> None:
        """It hands over as soon as it leads, and is not replaced by the controller."""
        self.delays.clear()
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        write, going = EpochCache.write, Deferred[None]()

        async def waiting(cache: EpochCache, log: PartitionLog, history: EpochHistory) -> None:
            await going
            await write(cache, log, history)

        self.patch(EpochCache, "write", waiting)
        self.cluster.wait(self.admin.drain(self.number))
        while self.state().leader == self.number:
            self.cluster.advance(0.01)
        number = self.state().leader
        self.cluster.wait(self.admin.drain(number))
        while self.state().successor == NO_LEADER:
            self.cluster.advance(0.01)
        self.cluster.advance(0.5)
        going.callback(None)
        self.cluster.advance(PATIENCE)
        self.assertNotIn(self.state().leader, (number, self.number))
        self.assertEqual(events.infos("has not handed"), [])

    def test_a_successor_that_dies_at_that_moment(self) -> None:
        """The leader goes on soon, and the other follower leads later."""
        followers = {self.number_of(broker): broker for broker in self.followers}
        seen: list[int] = []
        hand = leader.LeaderRole.hand_to_successor

        def hand_to_successor(role: leader.LeaderRole, give_way: leader.GiveWay) -> None:
            successor = role.state.state.successor
            if successor in followers and not seen:
                seen.append(successor)
                followers[successor].kill()
            hand(role, give_way)

        self.patch(leader.LeaderRole, "hand_to_successor", hand_to_successor)
        self.cluster.wait(self.admin.drain(self.number))
        self.cluster.advance(10.0)
        (dead,) = seen
        self.assertNotIn(self.state().leader, (dead, self.number))
        self.send(b"after")
