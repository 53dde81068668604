"""Tests of requests for partitions that other brokers store, or that no live broker stores."""

from __future__ import annotations

from logd.coord import paths
from logd.coord.registries.brokers import BrokerInfo
from logd.coord.registries.topics import encode_entry
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import BrokerAddress, Metadata
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")
WRONG, NO_LEADER = 3, 115


class MisroutedRequestTests(BrokerTestCase):
    """Broker 7 is live, broker 9 is not, and this one is broker 0."""

    def setUp(self) -> None:
        """Store topic "t" on all three brokers and topic "u" on broker 7 alone."""
        super().setUp()
        other = InProcessCoordination(self.tree, self.tree_clock)
        other.connect()
        self.settle()
        seven = BrokerInfo(7, "seven.example", 7777, "another-instance")
        other.create(paths.broker(7), seven.encode(), ephemeral=True)
        entry = TopicEntry("t-uuid", {0: (0,), 1: (7,), 2: (9,), 3: (7,), 4: (0,)})
        other.create(paths.topic("t"), encode_entry(entry))
        other.create(paths.topic("u"), encode_entry(TopicEntry("u-uuid", {0: (7,)})))
        self.settle()
        self.peer = self.connect()

    def test_metadata_names_the_live_leaders(self) -> None:
        """A partition whose broker is not live has an error of its own, beside its replicas."""
        answer = self.ask(self.peer, Metadata(("t",)))
        expected = (BrokerAddress(0, "broker.example", 6667), BrokerAddress(7, "seven.example", 7777))
        self.assertEqual(answer.brokers, expected)
        (topic,) = answer.topics
        leaders = [(each.leader, each.error) for each in topic.partitions]
        self.assertEqual(leaders, [(0, 0), (7, 0), (-1, NO_LEADER), (7, 0), (0, 0)])
        self.assertEqual(topic.partitions[2].replicas, (9,))

    def test_only_own_partitions_get_logs(self) -> None:
        """A log for another broker's partition would be a second one under its name."""
        self.assertEqual(sorted((log.topic, log.partition) for log in self.store.logs()), [("t", 0), ("t", 4)])

    def test_another_brokers_partition_is_refused(self) -> None:
        """The error has the client ask for metadata again."""
        self.assertEqual(self.produce(self.peer, "t", HELLO, 1).error, WRONG)
        self.assertEqual(self.ask(self.peer, Fetch("t", 1, 0, 100)), FetchResponse(WRONG))
        (part,) = self.ask(self.peer, FetchWait(0, 1, 100, (FetchPart("t", 1, 0, 0, 100),))).parts
        self.assertEqual(part.error, WRONG)

    def test_partition_minus_one_means_an_own_one(self) -> None:
        """The broker chooses in turn among those that it stores."""
        stored = [self.produce(self.peer, "t", HELLO, -1).stored_partition for _ in range(4)]
        self.assertEqual(stored, [0, 4, 0, 4])

    def test_a_topic_stored_elsewhere_is_refused(self) -> None:
        """The refusals are counted and logged with a remedy, and no log is made."""
        self.assertEqual(self.produce(self.peer, "u", HELLO, -1).error, WRONG)
        self.peer.send(Produce("u", -1, HELLO))
        self.settle()
        self.assertEqual(self.broker.counters.refused_by_error, {"WrongPartition": 2})
        self.assertEqual(len(self.events.warnings("topics.partitions")), 2)
        self.assertEqual([log for log in self.store.logs() if log.topic == "u"], [])


class StartingTests(BrokerTestCase):
    """A broker that has not reached the tree yet."""

    joins = False

    def test_requests_wait_for_the_first_comparison(self) -> None:
        """Until then the broker does not know which partitions it serves."""
        peer = self.connect()
        peer.send(Metadata(None))
        self.settle()
        self.assertEqual((peer.received(), self.broker.health()["status"]), (b"", "degraded"))
        self.join()
        (answer,) = peer.answers()
        self.assertEqual([broker.id for broker in answer.brokers], [0])

    def test_a_broker_begins_without_its_tree(self) -> None:
        """After a while it answers by what it knows; topics cannot be made yet."""
        peer = self.connect()
        self.broker.begin()
        self.assertEqual(self.ask(peer, Metadata(("t",), create=True)).topics[0].error, 114)
