"""Tests of logd.broker.kafka.describing: what Kafka's clients are told of brokers and topics."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest
from twisted.internet.defer import Deferred

from logd.broker.listening.addresses import KafkaListener
from logd.coord.partition_state import PartitionState
from logd.coord.records import SessionState, Stat
from logd.protocol.kafka.apis import APIS
from logd.topic import TopicEntry
from tests.broker.kafka.rig import KafkaTestCase

#: The address of the broker as StringTransport has it: a client is told the one that it has reached.
REACHED = ("10.0.0.1", 12345)


def asked(version: int, names: list[str] | None, **more: Any) -> Any:
    """Return a request for topics."""
    wanted = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest[version](topics=wanted, **more)


class MetadataTests(KafkaTestCase):
    """Metadata."""

    def test_every_version(self) -> None:
        """All have the broker at the address that the client has reached, and each partition with its leader."""
        self.create("t", 2)
        peer = self.kafka()
        for version in APIS[3].versions:
            answer = self.ask(peer, asked(version, ["t"]))
            self.assertEqual([(b.node_id, b.host, b.port) for b in answer.brokers], [(0, *REACHED)])
            (topic,) = answer.topics
            found = [(p.partition_index, p.error_code, p.leader_id, p.replica_nodes) for p in topic.partitions]
            self.assertEqual((topic.error_code, topic.name, found), (0, "t", [(0, 0, 0, [0]), (1, 0, 0, [0])]))
            if version >= 1:
                self.assertEqual(answer.controller_id, 0)
            if version >= 2:
                self.assertEqual(answer.cluster_id, self.membership.cluster)

    def test_all_topics(self) -> None:
        """Null asks for all of them, and so does an empty list of version 0; later it asks for none."""
        self.create("a")
        self.create("b")
        peer = self.kafka()
        for version, wanted, names in ((0, [], ["a", "b"]), (1, None, ["a", "b"]), (1, [], []), (8, [], [])):
            answer = self.ask(peer, asked(version, wanted))
            self.assertEqual([topic.name for topic in answer.topics], names, (version, wanted))

    def test_missing_topics_are_created_as_asked(self) -> None:
        """A name that is not allowed has another error than a topic that does not exist, and each has its place."""
        peer = self.kafka()
        answer = self.ask(peer, asked(8, ["new", "not allowed", "new"], allow_auto_topic_creation=False))
        self.assertEqual([(t.name, t.error_code) for t in answer.topics], [("new", 3), ("not allowed", 17)])
        answer = self.ask(peer, asked(8, ["new", ""], allow_auto_topic_creation=True))
        self.assertEqual(
            [(t.name, t.error_code, len(t.partitions)) for t in answer.topics], [("new", 0, 1), ("", 17, 0)]
        )
        self.assertEqual(self.broker.topics.names(), ["new"])

    def test_other_brokers(self) -> None:
        """A leader that does not listen for Kafka's clients is none to them."""
        peer = self.kafka()
        self.broker.addresses.native = lambda: {1: ("one", 6667), 2: ("two", 6667)}
        self.broker.addresses.kafka = lambda: {0: [("elsewhere", 1)], 1: [("one", 9092)]}
        self.broker.topics.show("t", TopicEntry("u", {0: (1,), 1: (2,), 2: (3,)}))
        answer = self.ask(peer, asked(8, ["t"]))
        brokers = [(b.node_id, b.host, b.port) for b in answer.brokers]
        self.assertEqual(brokers, [(0, *REACHED), (1, "one", 9092)])
        found = [
            (p.partition_index, p.error_code, p.leader_id, p.offline_replicas) for p in answer.topics[0].partitions
        ]
        self.assertEqual(found, [(0, 0, 1, []), (1, 5, -1, [2]), (2, 5, -1, [3])])

    def test_a_new_topic_is_shown_once_its_leaders_are_known(self) -> None:
        """Or after a second: librdkafka may not ask again for minutes where it was told of no leader."""
        states = self.broker.replication.states
        reading: list[Deferred[Any]] = []

        def read(path: str) -> tuple[Deferred[Any], Deferred[Any]]:
            reading.append(Deferred())
            return reading[-1], Deferred()

        connected = Mock(get_and_watch=read, state=SessionState.CONNECTED)
        patching = self.patch(states, "_coordination", connected)
        state = PartitionState(0, 0, (0,), (), {0: "i"})
        for name, seconds, leader in (("t", 0.5, 0), ("late", 1.1, -1)):
            self.broker.topics.show(name, TopicEntry("u", {0: (0,)}, replicated=True))
            peer = self.kafka()
            peer.send(asked(8, [name], allow_auto_topic_creation=False))
            self.assertEqual(peer.answers(), [])
            self.clock.advance(seconds)
            if seconds < 1:
                reading[-1].callback((state.encode(), Stat(*[0] * 11)))
            ((topic,),) = [answer.topics for answer in peer.answers()]
            self.assertEqual([part.leader_id for part in topic.partitions], [leader])
            states.forget(name)
        patching.restore()

    def test_racks(self) -> None:
        """A client is told the rack of each broker that names one."""
        self.broker.addresses.kafka = lambda: {1: [("one", 9092)], 2: [("two", 9092)]}
        self.broker.addresses.racks = lambda: {0: "a", 2: "b"}
        peer = self.kafka()
        for request in (
            asked(1, []),
            asked(8, []),
            DescribeClusterRequest[0](include_cluster_authorized_operations=False),
        ):
            self.assertEqual([each.rack for each in self.ask(peer, request).brokers], ["a", None, "b"])

    def test_clients_of_a_listener_are_told_of_those_at_its_place(self) -> None:
        """A broker that has none there is left out; this one is told by its advertised address."""
        self.broker.addresses.kafka = lambda: {1: [("inner", 9092)], 2: [("inner2", 9092), ("outer2", 9093)]}
        for listener, told in (
            (KafkaListener(), [(0, *REACHED), (1, "inner", 9092), (2, "inner2", 9092)]),
            (KafkaListener(1, ("outer", 9)), [(0, "outer", 9), (2, "outer2", 9093)]),
            (KafkaListener(2), [(0, *REACHED)]),
        ):
            answer = self.ask(self.kafka(listener=listener), asked(8, []))
            self.assertEqual(sorted((b.node_id, b.host, b.port) for b in answer.brokers), told)

    def test_operations_are_told_when_asked_for(self) -> None:
        """All that Kafka knows of a topic and of a cluster, as there are no users."""
        self.create("t")
        peer = self.kafka()
        answer = self.ask(peer, asked(8, ["t"]))
        self.assertEqual((answer.authorized_operations, answer.topics[0].authorized_operations), (None, None))
        both = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
        answer = self.ask(peer, asked(8, ["t"], **both))
        self.assertEqual(set(answer.topics[0].authorized_operations), {3, 4, 5, 6, 7, 8, 10, 11})
        self.assertEqual(set(answer.authorized_operations), {5, 7, 8, 9, 10, 11, 12})


class NoCreationTests(KafkaTestCase):
    """A broker that makes no topic because one is used."""

    options = {"topics_create": "explicit"}  # noqa: RUF012

    def test_nothing_is_created(self) -> None:
        """The topic is unknown, whatever the request allows."""
        answer = self.ask(self.kafka(), asked(8, ["new"], allow_auto_topic_creation=True))
        self.assertEqual((answer.topics[0].error_code, self.broker.topics.names()), (3, []))


class DescribeClusterTests(KafkaTestCase):
    """DescribeCluster, whose heads have tag buffers."""

    def test_every_version(self) -> None:
        """They have the brokers of Metadata."""
        peer = self.kafka()
        for version in APIS[60].versions:
            answer = self.ask(peer, DescribeClusterRequest[version](include_cluster_authorized_operations=True))
            self.assertEqual([(b.broker_id, b.host, b.port) for b in answer.brokers], [(0, *REACHED)])
            self.assertEqual((answer.error_code, answer.cluster_id), (0, self.membership.cluster))
            self.assertEqual(set(answer.authorized_operations), {5, 7, 8, 9, 10, 11, 12})

    def test_controllers(self) -> None:
        """There are none that clients could ask for."""
        answer = self.ask(self.kafka(), DescribeClusterRequest[1](endpoint_type=2))
        self.assertEqual((answer.error_code, answer.brokers), (114, []))
