"""Tests of quotas of topics and partitions, of the quotas in the tree, and of their metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.defer import Deferred

from logd.broker.security.quota_metrics import QuotaMetrics
from logd.broker.security.requester import Requester
from logd.coord.registries.quotas import read_quotas
from logd.errors import QuotaExceeded
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.security.quotas import Quota
from tests.broker.rig import Peer
from tests.broker.security.quota_rig import EXCEEDED, LARGE, QuotaTestCase


class TopicQuotaTests(QuotaTestCase):
    """Topics and partitions that a user may create."""

    def test_topics_that_a_user_has_created_count(self) -> None:
        """A deleted one makes room, and those of others do not count; the reason names the quota."""
        self.set_quota("alice", topics=2)
        peer = self.connect_as("alice")
        self.create_as(peer, "a", "b")
        refused = self.ask(peer, CreateTopic("c", 1, {}))
        self.assertEqual(refused.error, EXCEEDED)
        self.assertIn("alice has 2 of the 2 topics", refused.text)
        self.assertEqual(self.ask(self.connect_as("bob"), CreateTopic("d", 1, {})).error, 0)
        self.assertEqual(self.ask(peer, DeleteTopic("a")).error, 0)
        self.create_as(peer, "c")

    def test_topics_created_on_demand_count_too(self) -> None:
        """By a question for them, and by a produce."""
        self.set_quota("alice", topics=1)
        peer = self.connect_as("alice")
        (found,) = self.ask(peer, Metadata(("a",), True)).topics
        self.assertEqual(found.error, 0)
        (found,) = self.ask(peer, Metadata(("b",), True)).topics
        self.assertEqual(found.error, EXCEEDED)
        (part,) = self.ask(peer, ProduceAck(1, 1000, (ProducePart("c", 0, 0, False, LARGE),))).parts
        self.assertEqual(part.error, EXCEEDED)

    def test_partitions_count_when_they_are_added_as_well(self) -> None:
        """Also to a topic of somebody else."""
        self.set_quota("alice", partitions=4)
        peer = self.connect_as("alice")
        self.create_as(peer, "a")
        self.assertEqual(self.ask(peer, CreateTopic("b", 4, {})).error, EXCEEDED)
        self.assertEqual(self.ask(peer, AlterTopic("a", partitions=4)).error, 0)
        self.assertEqual(self.ask(peer, AlterTopic("a", partitions=5)).error, EXCEEDED)
        self.assertEqual(self.ask(peer, AlterTopic("t", partitions=2)).error, EXCEEDED)

    def test_creations_under_way_count(self) -> None:
        """Requests that are sent together do not slip through."""
        self.set_quota("alice", topics=2)
        peer = self.connect_as("alice")
        peer.send(*(CreateTopic(name, 1, {}) for name in ("a", "b", "c", "d")))
        self.settle()
        self.assertEqual(sorted(answer.error for answer in peer.answers()), [0, 0, EXCEEDED, EXCEEDED])

    def test_who_has_created_a_topic_is_known_after_a_start(self) -> None:
        """It stands in the topic's entry; the anonymous count together, and only where there are quotas."""
        self.create_as(self.connect_as("alice"), "a")
        self.create_as(self.connect(), "b")
        for peer in self.peers:
            peer.lose()
        self.leave()
        self.open()
        self.set_quota("alice", topics=1)
        self.set_quota("anonymous", topics=1)
        self.assertEqual(self.ask(self.connect_as("alice"), CreateTopic("c", 1, {})).error, EXCEEDED)
        self.create_as(self.connect(), "d")
        self.assertRaises(QuotaExceeded, self.broker.quotas.check_create, Requester(), "e", 1)

    def create_as(self, peer: Peer, *topics: str) -> None:
        """Create topics, which is allowed."""
        for topic in topics:
            self.assertEqual(self.ask(peer, CreateTopic(topic, 1, {})).error, 0)


class RegistryTests(QuotaTestCase):
    """The quotas in the tree."""

    def test_a_node_that_is_no_quota_is_left_out(self) -> None:
        """The others hold."""
        creating = self.access.client.create("/security/quotas/bad", b'{"topics": "many"}', makepath=True)
        self.settle()
        self.successResultOf(creating)
        self.set_quota("alice", topics=1)
        self.assertEqual(set(self.broker.quotas.entries), {"alice"})
        bad: list[str] = []
        reading = Deferred.fromCoroutine(read_quotas(self.access.client, lambda path, _: bad.append(path)))
        self.settle()
        self.assertEqual(self.successResultOf(reading), {"alice": Quota(topics=1)})
        self.assertEqual(bad, ["/security/quotas/bad"])
        self.set_quota("bad", topics=2)
        self.set_quota("alice")
        self.assertEqual(self.broker.quotas.entries, {"bad": Quota(topics=2)})


class MetricsTests(QuotaTestCase):
    """The metrics of quotas."""

    def scraped(self) -> str:
        """Return the metrics."""
        registry = CollectorRegistry()
        registry.register(QuotaMetrics(self.broker.quotas))
        return generate_latest(registry).decode()

    def value(self, name: str) -> float:
        """Return the value of one metric."""
        (line,) = [each for each in self.scraped().splitlines() if each.startswith(f"logd_quota_{name} ")]
        return float(line.rpartition(" ")[2])

    def test_only_users_with_a_quota_of_their_own_are_told_apart(self) -> None:
        """All others are counted together, and their counts do not fall when they are forgotten."""
        self.assertNotIn("quota", self.scraped())
        self.set_quota("*", bytes_in=100_000)
        self.set_quota("alice", bytes_in=10_000, topics=5)
        alice = self.connect_as("alice")
        others = [self.connect_as(f"user{number}") for number in range(5)]
        for peer in (alice, *others):
            self.send_large(peer)
        size = self.value('bytes_in_total{user="alice"}')
        self.assertGreater(size, 50_000)
        self.assertEqual(self.value('bytes_in_total{user="*"}'), 5 * size)
        self.assertEqual(self.value('held_connections{limit="bytes.in",user="alice"}'), 1)
        self.assertEqual(self.value('limit{limit="topics",user="alice"}'), 5)
        self.assertEqual(self.value('connections{user="*"}'), 5)
        for peer in others:
            peer.lose()
        self.clock.advance(10)
        self.set_quota("bob", topics=1)
        self.assertEqual(set(self.broker.quotas.usages), {"alice"})
        self.assertEqual(self.value('bytes_in_total{user="*"}'), 5 * size)
        self.assertNotIn("user0", self.scraped())

    def test_many_quotas_have_bounded_labels(self) -> None:
        """The rest is counted together."""
        self.broker.take_quotas({f"user{number:04}": Quota(topics=1) for number in range(1000)})
        users = {line.split('user="')[1].split('"')[0] for line in self.scraped().splitlines() if 'user="' in line}
        self.assertEqual(len(users), 101)
