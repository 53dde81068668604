"""Tests of what a broker answers about partitions that other brokers store, or nobody does."""

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
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")
WRONG, NO_LEADER = 3, 115


class ElsewhereTests(BrokerTestCase):
    """Broker 7 is live, broker 9 is not, and this one is broker 0."""

    def setUp(self) -> None:
        """Topic "t" is stored on all of them, topic "u" on broker 7 alone."""
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

    def test_metadata(self) -> None:
        """Live brokers with their addresses; a live broker that is listed leads; nobody is an error of its own."""
        answer = self.ask(self.peer, Metadata(("t",)))
        expected = (BrokerAddress(0, "broker.example", 6667), BrokerAddress(7, "seven.example", 7777))
        self.assertEqual(answer.brokers, expected)
        (topic,) = answer.topics
        leaders = [(each.leader, each.error) for each in topic.partitions]
        self.assertEqual(leaders, [(0, 0), (7, 0), (-1, NO_LEADER), (7, 0), (0, 0)])
        self.assertEqual(topic.partitions[2].replicas, (9,))

    def test_only_ours_are_made(self) -> None:
        """Logs are here for the partitions that list this broker."""
        self.assertEqual(sorted((log.topic, log.partition) for log in self.store.logs()), [("t", 0), ("t", 4)])

    def test_explicit_partition(self) -> None:
        """Who asks here for another broker's partition is told that it is wrong."""
        self.assertEqual(self.produce(self.peer, "t", HELLO, 1).error, WRONG)
        self.assertEqual(self.ask(self.peer, Fetch("t", 1, 0, 100)), FetchResponse(WRONG))
        (part,) = self.ask(self.peer, FetchWait(0, 1, 100, (FetchPart("t", 1, 0, 0, 100),))).parts
        self.assertEqual(part.error, WRONG)

    def test_picks_among_its_own(self) -> None:
        """Partition -1 takes turns among those that are here."""
        stored = [self.produce(self.peer, "t", HELLO, -1).stored_partition for _ in range(4)]
        self.assertEqual(stored, [0, 4, 0, 4])

    def test_none_here(self) -> None:
        """A topic of which nothing is here: refused, counted, and logged with what helps; nothing is made."""
        self.assertEqual(self.produce(self.peer, "u", HELLO, -1).error, WRONG)
        self.peer.send(Produce("u", -1, HELLO))
        self.settle()
        self.assertEqual(self.broker.counters.refused_by_error, {"WrongPartition": 2})
        self.assertEqual(len(self.events.warnings("topics.partitions")), 2)
        self.assertEqual([log for log in self.store.logs() if log.topic == "u"], [])


class StartingTests(BrokerTestCase):
    """A broker that has not reached the tree yet."""

    joins = False

    def test_connections_wait(self) -> None:
        """Requests wait until it is decided what is served here, and are answered then."""
        peer = self.connect()
        peer.send(Metadata(None))
        self.settle()
        self.assertEqual((peer.received(), self.broker.health()["status"]), (b"", "degraded"))
        self.join()
        (answer,) = peer.answers()
        self.assertEqual([broker.id for broker in answer.brokers], [0])

    def test_known_without_the_tree(self) -> None:
        """When that takes too long they are answered by what is known; nothing can be made yet."""
        peer = self.connect()
        self.broker.begin()
        self.assertEqual(self.ask(peer, Metadata(("t",), create=True)).topics[0].error, 114)
