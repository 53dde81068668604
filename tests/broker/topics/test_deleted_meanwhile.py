"""Tests of topics that are deleted while a broker is away that stores none of them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.cluster import MemoryCluster


class DeletedMeanwhileTests(SynchronousTestCase):
    """Three brokers, and a topic that one of them knows, and does not store."""

    def setUp(self) -> None:
        """Start the brokers."""
        self.cluster = MemoryCluster(brokers=3, zookeeper_session_ms=4_000)
        self.cluster.wait(self.cluster.start())

    def delete_without(self, broker: MemoryBroker) -> None:
        """Delete the topic while a broker is away; check that the broker does not bring it back."""
        self.cluster.wait(broker.stop())
        other = next(each.broker for each in self.cluster.brokers if each is not broker)
        assert other is not None
        self.cluster.wait(other.administration.delete("t"))
        self.cluster.advance(2.0)
        broker.start()
        self.cluster.advance(5.0)
        for each in self.cluster.brokers:
            assert each.broker is not None
            self.assertIsNone(each.broker.topics.get("t"), each.host)

    def test_the_broker_that_created_it_for_others(self) -> None:
        """The note about the deletion waits for those that store the topic alone."""
        creator = self.cluster.brokers[2]
        assert creator.broker is not None
        self.cluster.wait(creator.broker.administration.create("t", 1, {}, brokers={0: (0,)}))
        self.cluster.advance(1.0)
        self.delete_without(creator)

    def test_a_broker_whose_replicas_went_to_others(self) -> None:
        """It stored the topic once."""
        admin, former = self.cluster.admin(), self.cluster.brokers[2]
        assert former.broker is not None and former.store is not None
        self.cluster.wait(former.broker.administration.create("t", 1, {}, brokers={0: (0, 2)}))
        self.cluster.advance(1.0)
        self.assertEqual(len(former.store.logs_of("t")), 1)
        self.cluster.wait(admin.reassign("t", {0: (0, 1)}))
        self.cluster.advance(10.0)
        self.assertEqual(len(former.store.logs_of("t")), 0)
        self.delete_without(former)
