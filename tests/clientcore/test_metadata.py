"""Tests of logd.clientcore.metadata."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.metadata import ClusterView, described
from logd.errors import InvalidTopic, PartitionOffline, UnknownTopic, WrongPartition
from logd.protocol.requests.metadata import BrokerAddress, MetadataResponse, PartitionMetadata, TopicMetadata


def partition(number: int, leader: int = 1, error: int = 0) -> PartitionMetadata:
    """Return a partition, as a broker describes it."""
    return PartitionMetadata(number, error, leader, 0, (), ())


def answer(*partitions: PartitionMetadata, error: int = 0) -> MetadataResponse:
    """Return an answer of broker 1 about topic t."""
    return MetadataResponse((BrokerAddress(1, "one", 6667),), (TopicMetadata("t", error, "uuid", partitions),))


class ClusterViewTests(SynchronousTestCase):
    """``ClusterView``."""

    def setUp(self) -> None:
        """Make a view that has read nothing."""
        self.view: ClusterView[str] = ClusterView(lambda host, port: f"{host}/{port}")

    def test_a_partition_has_the_address_of_its_leader(self) -> None:
        """The view remembers when it was read, so that it can be read again with age."""
        self.view.read(answer(partition(1), partition(0)), 5.0)
        self.assertEqual(self.view.leader("t", 1), "one/6667")
        self.assertEqual(list(self.view.addresses), ["one/6667"])
        known = self.view.known("t")
        assert known is not None
        self.assertEqual((known.uuid, known.partitions, known.read_at), ("uuid", (0, 1), 5.0))

    def test_a_missing_leader_is_told_from_an_offline_partition(self) -> None:
        """The first may pass by itself; the second needs an operator, who is told which broker to ask."""
        self.view.read(answer(partition(0), partition(1, leader=2), partition(2, error=PartitionOffline.code)), 0.0)
        self.assertRaisesRegex(WrongPartition, "partitions", self.view.leader, "t", 7)
        no_leader = (
            "no leader now, since no broker that may lead it is live: `logd topics describe t` shows its replicas"
        )
        self.assertRaisesRegex(WrongPartition, no_leader, self.view.leader, "t", 1)
        self.assertRaisesRegex(PartitionOffline, "offline on broker 1", self.view.leader, "t", 2)
        self.assertEqual(self.view.keeper("t", 2), "one/6667")
        known = self.view.known("t")
        assert known is not None
        self.assertEqual(known.available, (0,))

    def test_a_broker_that_leads_no_more(self) -> None:
        """Another one leads some of the partitions, and it none: one that leads another of them is alive."""

        def described_by(*partitions: tuple[int, int, int]) -> MetadataResponse:
            brokers = BrokerAddress(1, "one", 6667), BrokerAddress(2, "two", 6667)
            parts = tuple(PartitionMetadata(number, 0, leader, epoch, (), ()) for number, leader, epoch in partitions)
            return MetadataResponse(brokers, (TopicMetadata("t", 0, "uuid", parts),))

        self.view.read(described_by((0, 1, 5), (1, 1, 5)), 0.0)
        both = {("t", 0), ("t", 1)}
        for partitions, asked, left in (
            (((0, 2, 6), (1, 2, 6)), both, True),
            (((0, 2, 6), (1, 1, 5)), both, False),
            (((0, 2, 6), (1, 1, 5)), {("t", 0)}, True),
            (((0, 2, 6), (1, 3, 6)), both, True),  # nobody leads the other one
            (((0, 3, 6), (1, 3, 6)), both, False),
            (((0, 2, 4), (1, 2, 4)), both, False),  # the answer is older than what is known
            (((0, 2, 6),), {("u", 0)}, False),
        ):
            with self.subTest(partitions=partitions):
                self.assertIs(self.view.has_left("one/6667", asked, described_by(*partitions)), left)
        known = self.view.known("t")
        assert known is not None
        self.assertEqual(known.leaders, {0: 1, 1: 1})

    def test_a_later_leader_epoch(self) -> None:
        """It is looked at for one partition, and a partition that was not described has none."""
        views = []
        for epochs in ((3, 5), (4, 5)):
            parts = [PartitionMetadata(number, 0, 1, epoch, (), ()) for number, epoch in enumerate(epochs)]
            self.view.read(answer(*parts), 0.0)
            views.append(self.view.known("t"))
        former, later = views
        assert former is not None and later is not None
        self.assertEqual([later.is_later(former, number) for number in range(3)], [True, False, False])
        self.assertEqual([former.is_later(later, number) for number in range(3)], [False] * 3)

    def test_a_change_is_told_once(self) -> None:
        """Other partitions are one, and a topic that was not known; another leader is none."""
        read = [(0,), (0,), (0, 1), (0, 1), (1,)]
        told = [self.view.read(answer(*map(partition, numbers)), 0.0) for numbers in read]
        self.assertEqual(told, [["t"], [], ["t"], [], ["t"]])
        self.assertEqual(self.view.read(answer(partition(1, leader=2)), 0.0), [])
        self.view.forget("t")
        self.assertEqual(self.view.read(answer(partition(1)), 0.0), ["t"])

    def test_an_unread_topic_is_unknown(self) -> None:
        """A forgotten topic is unknown again; an answer with an error changes nothing."""
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
    """``described``."""

    def test_a_topics_error_is_raised(self) -> None:
        """An answer that leaves the topic out is an error as well."""
        self.assertEqual(described(answer(partition(0)), "t").uuid, "uuid")
        self.assertRaisesRegex(InvalidTopic, "topic 't': ", described, answer(error=InvalidTopic.code), "t")
        self.assertRaisesRegex(UnknownTopic, "said nothing about topic 'u'", described, answer(), "u")
        gone = answer(error=UnknownTopic.code)
        self.assertRaisesRegex(UnknownTopic, "there is no topic 't'$", described, gone, "t")
        self.assertRaisesRegex(UnknownTopic, "there is no topic 't' at h:1; 'logd topics", described, gone, "t", "h:1")
