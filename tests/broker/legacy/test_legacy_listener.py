"""Tests of the listener and the registry for clients of Kafka 0.7 that use ZooKeeper, on a broker in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from logd.broker.legacy.registry import LOOK_SECONDS
from logd.config.legacy import LegacySettings
from logd.config.replication import ReplicationSettings
from logd.errors import ConfigurationError
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata
from logd.topic import TopicEntry
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain
from tests.net.doubles import PeerTransport

NODE = "/old/kafka"


class CountedPartitions(Mapping[int, tuple[int, ...]]):
    """The partitions of a topic, with the number of times that all of them were looked at."""

    def __init__(self, partitions: Mapping[int, tuple[int, ...]]) -> None:
        self.partitions = partitions
        self.looks = 0

    def __getitem__(self, number: int) -> tuple[int, ...]:
        return self.partitions[number]

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[int]:
        self.looks += 1
        return iter(self.partitions)


class LegacyListenerTests(BrokerTestCase):
    """``LegacySession`` and ``LegacyRegistry``."""

    options = {  # noqa: RUF012
        "legacy": LegacySettings(legacy_registry=NODE, legacy_listen="tcp:0"),
        "replication": ReplicationSettings(default_replicas=3),
    }

    def setUp(self) -> None:
        """Make a topic of which this broker has the partitions 1 and 3, as far as the listener knows."""
        super().setUp()
        self.make("t", 4, {"message.format": "0.7"})
        entry = self.broker.topics.get("t")
        assert entry is not None
        shared = {0: (5,), 1: (0,), 2: (5,), 3: (0,)}
        self.broker.topics.show("t", TopicEntry(entry.uuid, shared, entry.settings))

    def make(self, topic: str, partitions: int, settings: dict[str, int | str]) -> None:
        """Make a topic with one replica."""
        creating = self.broker.administration.create(topic, partitions, settings, replicas=1)
        self.settle()
        self.successResultOf(creating)

    def old_client(self) -> Peer:
        """Connect to the listener of 0.7."""
        connection = self.ports["legacy.listen", 0].buildProtocol(None)
        peer = Peer(connection, PeerTransport(host="10.0.0.9"))
        self.peers.append(peer)
        connection.makeConnection(peer.transport)
        peer.pump()
        return peer

    def registered(self) -> dict[str, bytes]:
        """Return the nodes of the registry after a look at the topics, with their values."""
        self.clock.advance(LOOK_SECONDS)
        self.settle()
        return self.nodes()

    def nodes(self) -> dict[str, bytes]:
        """Return the nodes of the registry as they are now, with their values."""
        nodes = self.tree.tree.nodes
        return {path: bytes(node.data) for path, node in nodes.items() if path.startswith(NODE) and node.data}

    def test_numbers_are_those_of_this_broker(self) -> None:
        """In every request of 0.7; a number that it does not have is an error, or refused."""
        peer = self.old_client()
        peer.send(Produce("t", 0, plain(b"to 1")), MultiProduce((Produce("t", 1, plain(b"to 3")),)))
        peer.send(Produce("t", 2, plain(b"to none")))
        self.settle()
        self.assertEqual([bool(self.content("t", number)) for number in range(4)], [False, True, False, True])
        requests = (
            Fetch("t", 0, 0, 100),
            MultiFetch((Fetch("t", 1, 0, 100), Fetch("t", 2, 0, 100))),
            Offsets("t", 1, -2, 1),
        )
        peer.send(*requests)
        self.settle()
        one, many, offsets = peer.answers_to(*requests)
        self.assertEqual(bytes(one.message_set), plain(b"to 1"))
        self.assertEqual((many.parts[0].error, bytes(many.parts[0].message_set)), (0, plain(b"to 3")))
        self.assertEqual(many.parts[1].error, 3)
        self.assertEqual(list(offsets.offsets), [0])

    def test_the_partitions_of_a_topic_are_looked_at_once(self) -> None:
        """Not for each request, of which a client of 0.7 sends one for each message; and again after a change."""
        entry = self.broker.topics.get("t")
        assert entry is not None
        peer, counted = self.old_client(), CountedPartitions(entry.partitions)
        self.broker.topics.show("t", evolve(entry, partitions=counted))
        counted.looks = 0
        fetches = MultiFetch(tuple([Fetch("t", number % 2, 0, 100) for number in range(100)]))
        for _ in range(3):
            peer.send(Produce("t", 0, plain(b"to 1")), fetches, Offsets("t", 1, -2, 1))
            self.settle()
        self.assertEqual(counted.looks, 1)
        self.broker.topics.show("t", evolve(entry, partitions={**entry.partitions, 0: (0,)}))
        peer.send(Produce("t", 0, plain(b"to 0")))
        self.settle()
        self.assertEqual(self.content("t", 0), plain(b"to 0"))

    def test_a_topic_of_a_producer_is_spread_over_all_brokers(self) -> None:
        """A producer of 0.7 sends to partition 0 of each broker before it knows who has a new topic, unanswered."""
        self.broker.addresses.native = lambda: {5: ("other.example", 6667), 6: ("third.example", 6667)}
        peer = self.old_client()
        peer.send(Produce("new", 0, plain(b"first")), Produce("new", 0, plain(b"second")))
        self.settle()
        entry = self.broker.topics.get("new")
        assert entry is not None
        self.assertEqual((len(entry.partitions), entry.settings), (3, {"message.format": "0.7"}))
        held = b"".join(self.content("new", number) for number in entry.partitions)
        self.assertEqual(sorted((b"first" in held, b"second" in held)), [True, True])

    def test_a_topic_that_it_creates_has_one_replica(self) -> None:
        """Whatever the broker's default: another one would not be served here."""
        peer = self.old_client()
        peer.send(Produce("new", -1, plain(b"first")))
        self.settle()
        peer.send(Produce("new", 0, plain(b"second")))
        self.settle()
        entry = self.broker.topics.get("new")
        assert entry is not None
        self.assertEqual((entry.replicated, dict(entry.partitions)), (False, {0: (0,)}))
        self.assertEqual(self.content("new", 0), plain(b"first") + plain(b"second"))

    def test_others_are_told_where_to_go(self) -> None:
        """A native client would mistake the numbers."""
        peer = self.old_client()
        peer.send(Metadata((), False))
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.assertEqual(len(self.events.warnings("is no request of Kafka 0.7")), 1)

    def test_the_registry_has_the_broker_and_its_topics(self) -> None:
        """As 0.7 wrote them; topics of other formats, and those without a partition here, are left out."""
        self.make("new", 1, {})
        self.assertEqual(
            self.registered(),
            {
                f"{NODE}/brokers/ids/0": b"broker.example-logd:broker.example:6667",
                f"{NODE}/brokers/topics/t/0": b"2",
            },
        )
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.broker.topics.show("t", TopicEntry(entry.uuid, {0: (0,), 1: (0,), 2: (0,)}, entry.settings))
        self.assertEqual(self.registered()[f"{NODE}/brokers/topics/t/0"], b"3")
        self.broker.topics.hide("t")
        self.assertEqual(list(self.registered()), [f"{NODE}/brokers/ids/0"])

    def test_the_broker_is_registered_once_it_takes_requests(self) -> None:
        """A producer of 0.7 that finds neither the broker nor the node of the registry gives up."""
        self.assertTrue(self.broker.ready)
        self.assertIn(f"{NODE}/brokers/ids/0", self.nodes())

    def test_replicated_topics_are_left_out(self) -> None:
        """The broker that leads may change, and the numbers of 0.7 are one broker's: refused, not lost."""
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertIn(f"{NODE}/brokers/topics/t/0", self.registered())
        self.broker.topics.show("t", evolve(entry, partitions={0: (0, 5), 1: (5, 0)}, replicated=True))
        for _ in range(3):
            self.assertEqual(list(self.registered()), [f"{NODE}/brokers/ids/0"])
        self.assertEqual(len(self.events.warnings("topic t has several replicas")), 1)
        peer = self.old_client()
        peer.send(Produce("t", 0, plain(b"lost")), Produce("t", -1, plain(b"lost")))
        fetch = Fetch("t", 0, 0, 100)
        peer.send(fetch)
        self.settle()
        (answer,) = peer.answers_to(fetch)
        self.assertEqual(answer.error, 3)
        self.assertEqual([self.content("t", number) for number in range(4)], [b""] * 4)
        self.broker.topics.show("t", entry)
        self.assertIn(f"{NODE}/brokers/topics/t/0", self.registered())


class LegacySettingsTests(BrokerTestCase):
    """``LegacySettings``."""

    def test_both_or_none(self) -> None:
        """And the node is no root and no relative path."""
        for settings in (
            {"legacy_registry": "/old"},
            {"legacy_listen": "tcp:1"},
            {"legacy_registry": "/", "legacy_listen": "tcp:1"},
            {"legacy_registry": "old", "legacy_listen": "tcp:1"},
        ):
            with self.assertRaises(ConfigurationError):
                LegacySettings(**settings)
