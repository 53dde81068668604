"""Tests of waits for a number of copies, and of what survives what: the table in docs/replication.md."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.broker.replication.followers import CopyWaiters
from logd.errors import NotLeader
from logd.interfaces import IFlushListener
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_replicas import ReplicaTestCase


@implementer(IFlushListener)
@define(eq=False)
class Listener:
    """Notes what it is told."""

    told: list[object] = field(factory=list)

    def visible(self, end: int) -> None:
        """See IFlushListener."""
        self.told.append(end)

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        self.told.append(type(error))


class CopyWaitersTests(SynchronousTestCase):
    """CopyWaiters."""

    def setUp(self) -> None:
        """Make one."""
        self.raised: list[str] = []
        self.waiters = CopyWaiters(self.raised.append)

    def test_at_once(self) -> None:
        """If there are enough copies already, there is nothing to wait for."""
        listener = Listener()
        self.assertIsNone(self.waiters.wait(2, 10, [10, 5, 10], listener))
        self.assertEqual(listener.told, [10])

    def test_each_waits_for_its_own_number(self) -> None:
        """The second greatest end decides for two copies, the third for three."""
        two, three = Listener(), Listener()
        self.assertIsNotNone(self.waiters.wait(2, 10, [10, 0], two))
        self.assertIsNotNone(self.waiters.wait(3, 10, [10, 0], three))
        self.waiters.moved(lambda: [10, 9])
        self.assertEqual((two.told, three.told), ([], []))
        self.waiters.moved(lambda: [12, 11, 9])
        self.assertEqual((two.told, three.told), ([11], []))
        self.waiters.moved(lambda: [12, 11, 10])
        self.assertEqual((two.told, three.told), ([11], [10]))
        self.waiters.moved(lambda: self.fail("nobody waits"))

    def test_a_wait_that_is_cancelled(self) -> None:
        """Nobody is called, and nothing is kept."""
        listener = Listener()
        wait = self.waiters.wait(2, 10, [10], listener)
        assert wait is not None
        wait.cancel()
        self.waiters.moved(lambda: [10, 10])
        self.waiters.fail(NotLeader("it leads no longer"))
        self.assertEqual(listener.told, [])

    def test_the_end_of_the_leadership(self) -> None:
        """All fail."""
        two, three = Listener(), Listener()
        self.waiters.wait(2, 10, [10], two)
        self.waiters.wait(3, 10, [10], three)
        self.waiters.fail(NotLeader("it leads no longer"))
        self.assertEqual((two.told, three.told), ([NotLeader], [NotLeader]))


class AcksTests(ReplicaTestCase):
    """Three replicas in sync, of which one or both followers stand still for a moment."""

    def send_while_paused(self, acks: int, paused: list[MemoryBroker]) -> None:
        """Have a message acknowledged that paused followers do not have, and let them go on once the leader is dead."""
        producer = self.cluster.producer(acks=acks)
        self.cluster.wait(producer.send("t", b"before"))
        self.cluster.advance(0.5)
        self.leading = self.leader
        for each in paused:
            assert each.clock is not None
            each.clock.pause()
        self.cluster.wait(producer.send("t", b"the answer to a fetch that waits"), 0.5)
        self.cluster.wait(producer.send("t", b"the message"), 0.5)
        self.assertEqual(len(self.logs()[self.leading.host].leadership.in_sync), 3)
        self.leading.kill()
        for each in paused:
            assert each.clock is not None
            each.clock.resume()

    def survives(self) -> bool:
        """Return whether the message is in all logs in the end; else it is in none."""
        self.cluster.advance(8.0)
        if not self.leading.running:
            self.leading.start()
            self.cluster.advance(5.0)
        (content,) = self.contents()
        return b"the message" in content

    def test_one_copy_survives_if_its_leader_leads_again(self) -> None:
        """Its process was killed, and is back before another one leads."""
        self.send_while_paused(1, self.followers)
        self.leading.start()
        self.assertTrue(self.survives())

    def test_one_copy_is_lost_with_its_leader(self) -> None:
        """Another one leads."""
        self.send_while_paused(1, self.followers)
        self.assertFalse(self.survives())

    def test_two_copies_survive_if_one_of_them_leads(self) -> None:
        """The first replica in sync that lives is chosen: here it is the one that has the message."""
        self.send_while_paused(2, [self.followers_by_preference()[1]])
        self.assertTrue(self.survives())

    def test_two_copies_are_lost_if_a_third_replica_leads(self) -> None:
        """It is in sync, and has everything that readers were shown: that is not all that was appended twice."""
        self.send_while_paused(2, [self.followers_by_preference()[0]])
        self.assertFalse(self.survives())

    def followers_by_preference(self) -> list[MemoryBroker]:
        """Return the followers in the order in which they are chosen."""
        (topic,) = self.cluster.wait(self.admin.metadata(["t"])).topics
        order = topic.partitions[0].replicas
        return sorted(self.followers, key=lambda broker: order.index(broker.settings.id or 0))
