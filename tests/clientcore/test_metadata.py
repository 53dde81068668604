"""Tests of logd.clientcore.metadata."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.metadata import ClusterView, described
from logd.errors import InvalidTopic, PartitionOffline, UnknownTopic, WrongPartition
from logd.protocol.requests.metadata import BrokerAddress, MetadataResponse, PartitionMetadata, TopicMetadata


def partition(number: int, leader: int = 1, error: int = 0) -> PartitionMetadata:
    """One partition, as a broker describes it."""
    return PartitionMetadata(number, error, leader, 0, (), ())


def answer(*partitions: PartitionMetadata, error: int = 0) -> MetadataResponse:
    """An answer of broker 1 about topic t."""
    return MetadataResponse((BrokerAddress(1, "one", 6667),), (TopicMetadata("t", error, "uuid", partitions),))


class ClusterViewTests(SynchronousTestCase):
    """ClusterView."""

    def setUp(self) -> None:
        """Nothing was read."""
        self.view: ClusterView[str] = ClusterView(lambda host, port: f"{host}/{port}")

    def test_leader(self) -> None:
        """A partition has the address of its leader."""
        self.view.read(answer(partition(1), partition(0)), 5.0)
        self.assertEqual(self.view.leader("t", 1), "one/6667")
        self.assertEqual(list(self.view.addresses), ["one/6667"])
        known = self.view.known("t")
        assert known is not None
        self.assertEqual((known.uuid, known.partitions, known.read_at), ("uuid", (0, 1), 5.0))

    def test_no_leader(self) -> None:
        """A partition that is not there, or whose leader is not live, is told from one that is offline."""
        self.view.read(answer(partition(0), partition(1, leader=2), partition(2, error=PartitionOffline.code)), 0.0)
        self.assertRaisesRegex(WrongPartition, "partitions", self.view.leader, "t", 7)
        self.assertRaisesRegex(WrongPartition, "no leader now", self.view.leader, "t", 1)
        self.assertRaisesRegex(PartitionOffline, "offline on broker 1", self.view.leader, "t", 2)
        self.assertEqual(self.view.keeper("t", 2), "one/6667")
        known = self.view.known("t")
        assert known is not None
        self.assertEqual(known.available, (0,))

    def test_unknown(self) -> None:
        """Nothing is known of a topic before it was read, and after it was forgotten; an error changes nothing."""
        self.assertRaises(UnknownTopic, self.view.leader, "t", 0)
        self.view.read(answer(partition(0)), 0.0)
        self.view.read(answer(error=InvalidTopic.code), 1.0)
        self.assertEqual(self.view.leader("t", 0), "one/6667")
        self.view.forget("t")
        self.assertIsNone(self.view.known("t"))
        self.view.read(answer(partition(0)), 0.0)
        self.view.forget_all()
        self.assertIsNone(self.view.known("t"))


class DescribedTests(SynchronousTestCase):
    """described."""

    def test_what_was_asked_for(self) -> None:
        """A topic is found, or its error is raised; an answer that leaves it out is one that it does not exist."""
        self.assertEqual(described(answer(partition(0)), "t").uuid, "uuid")
        self.assertRaisesRegex(InvalidTopic, "topic 't': ", described, answer(error=InvalidTopic.code), "t")
        self.assertRaisesRegex(UnknownTopic, "said nothing about topic 'u'", described, answer(), "u")
        gone = answer(error=UnknownTopic.code)
        self.assertRaisesRegex(UnknownTopic, "there is no topic 't'$", described, gone, "t")
        self.assertRaisesRegex(UnknownTopic, "there is no topic 't' at h:1; 'logd topics", described, gone, "t", "h:1")
