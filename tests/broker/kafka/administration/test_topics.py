"""Tests of logd.broker.kafka.administration.topics: creating, deleting and growing topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from twisted.logger import formatEvent

from logd.protocol.kafka.apis import APIS
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase


def creation(
    version: int,
    *topics: tuple[str, int, int],
    assigned: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
    validate_only: bool = False,
) -> Any:
    """Return a request to create (name, partitions, replication factor)s; all have the assignment and the configs."""
    kind = CreateTopicsRequest.CreatableTopic
    assignments = [
        kind.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
        for number, brokers in (assigned or {}).items()
    ]
    settings = [kind.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    return CreateTopicsRequest[version](
        topics=[
            kind(
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                assignments=assignments,
                configs=settings,
            )
            for name, partitions, factor in topics
        ],
        timeout_ms=1000,
        validate_only=validate_only,
    )


def growth(
    version: int, topic: str, count: int, assigned: list[list[int]] | None = None, *, validate_only: bool = False
) -> Any:
    """Return a request for more partitions of a topic."""
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    brokers = None if assigned is None else [kind.CreatePartitionsAssignment(broker_ids=each) for each in assigned]
    return CreatePartitionsRequest[version](
        topics=[kind(name=topic, count=count, assignments=brokers)], timeout_ms=1000, validate_only=validate_only
    )


class TopicsTestCase(KafkaTestCase):
    """A broker and its topics."""

    def codes(self, peer: KafkaPeer, request: Any) -> list[tuple[str, int]]:
        """Send a request to create; return names and codes."""
        return [(topic.name, topic.error_code) for topic in self.ask(peer, request).topics]

    def placed(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the brokers of a topic's partitions."""
        entry = self.broker.topics.get(topic)
        assert entry is not None
        return dict(entry.partitions)


class CreateTopicsTests(TopicsTestCase):
    """CreateTopics."""

    def test_every_version(self) -> None:
        """The topic is there once the answer is, and a second one of its name is refused, with a text from 1 on."""
        peer = self.kafka()
        for version in APIS[19].versions:
            name = f"t{version}"
            self.assertEqual(self.codes(peer, creation(version, (name, 3, 1))), [(name, 0)])
            self.assertEqual(self.placed(name), {0: (0,), 1: (0,), 2: (0,)})
            (topic,) = self.ask(peer, creation(version, (name, 3, 1))).topics
            self.assertEqual(topic.error_code, 36)
            if version >= 1:
                self.assertEqual(topic.error_message, f"topic '{name}' exists already")

    def test_the_brokers_own_numbers(self) -> None:
        """-1 stands for topics.partitions and one replica."""
        self.assertEqual(self.codes(self.kafka(), creation(4, ("t", -1, -1))), [("t", 0)])
        self.assertEqual(len(self.placed("t")), 1)

    def test_each_topic_has_its_own_outcome(self) -> None:
        """A topic that is refused does not keep the others from being created."""
        peer = self.kafka()
        request = creation(
            4,
            ("a", 1, 1),
            ("b b", 1, 1),
            ("c", 0, 1),
            ("d", 1, 3),
            ("e", 20_000, 1),
            ("f", 1, 1),
            ("f", 1, 1),
            ("g", 2, -1),
        )
        found = self.codes(peer, request)
        expected = [("a", 0), ("b b", 17), ("c", 37), ("d", 38), ("e", 37), ("f", 42), ("f", 42), ("g", 0)]
        self.assertEqual(found, expected)
        self.assertEqual(self.broker.topics.names(), ["a", "g"])

    def test_assignments(self) -> None:
        """They are taken where each partition is on live brokers."""
        peer = self.kafka()
        self.broker.addresses.native = lambda: {1: ("one", 6667)}
        cases: list[tuple[dict[int, list[int]], int, int, int]] = [
            ({0: [0], 1: [1], 2: [0]}, -1, -1, 0),
            ({0: [0]}, 1, 1, 42),
            ({0: [0], 2: [0]}, -1, -1, 39),
            ({0: [0, 0]}, -1, -1, 39),
            ({0: [7]}, -1, -1, 39),
            ({0: []}, -1, -1, 39),
        ]
        for number, (assigned, partitions, factor, code) in enumerate(cases):
            name = f"t{number}"
            request = creation(4, (name, partitions, factor), assigned=assigned)
            self.assertEqual(self.codes(peer, request), [(name, code)], assigned)
        self.assertEqual(self.placed("t0"), {0: (0,), 1: (1,), 2: (0,)})

    def test_settings(self) -> None:
        """Ours are acted on, the others kept; a wrong name or value refuses the topic."""
        peer = self.kafka()
        configs = {"retention.ms": "1000", "cleanup.policy": "compact,delete", "max.message.bytes": None}
        self.assertEqual(self.codes(peer, creation(4, ("t", 1, 1), configs=configs)), [("t", 0)])
        self.assertEqual(self.log_of("t").settings.retention_ms, 1000)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual(
            (entry.settings, entry.kafka_settings), ({"retention.ms": 1000}, {"cleanup.policy": "compact,delete"})
        )
        for name, value in (("no.such", "1"), ("retention.ms", "soon"), ("cleanup.policy", "keep")):
            self.assertEqual(self.codes(peer, creation(4, ("u", 1, 1), configs={name: value})), [("u", 40)], name)
        self.assertEqual(self.broker.topics.names(), ["t"])

    def test_only_validated(self) -> None:
        """Nothing is created, and errors are those of a creation."""
        peer = self.kafka()
        found = self.codes(peer, creation(1, ("t", 1, 1), ("b b", 1, 1), ("c", 20_000, 1), validate_only=True))
        self.assertEqual(found, [("t", 0), ("b b", 17), ("c", 37)])
        self.assertEqual(self.broker.topics.names(), [])

    def test_changes_are_logged_with_the_peer(self) -> None:
        """Names in refusals are escaped, so that they cannot act on the operator's terminal."""
        peer = self.kafka()
        self.ask(peer, creation(4, ("t", 2, 1), ("\x1b[2Jgone", 1, 1)))
        self.ask(peer, DeleteTopicsRequest[3](topic_names=["t"], timeout_ms=1000))
        lines = [formatEvent(event) for event in self.events.events]
        for words in (
            "anonymous at 10.0.0.8: create topic 't' (partitions = 2): done",
            "anonymous at 10.0.0.8: delete topic 't': done",
            "anonymous at 10.0.0.8: create topic '\\x1b[2Jgone': refused: topic name",
        ):
            self.assertTrue([line for line in lines if words in line], (words, lines))
        self.assertEqual([line for line in lines if "\x1b" in line], [])

    def test_deletion_of_names_that_the_tree_refuses(self) -> None:
        """There is no such topic: nothing is asked of the tree again and again on its behalf."""
        names = ["\x01", "a\x00b", "a\ud7ffb\ue000"]
        answer = self.ask(self.kafka(), DeleteTopicsRequest[3](topic_names=names, timeout_ms=1000))
        self.assertEqual([each.error_code for each in answer.responses], [3] * len(names))
        self.assertEqual(self.events.warnings("trying again until it does"), [])
        self.assertEqual(self.timers(), [])

    def test_a_full_disk(self) -> None:
        """The topic is not created, and can be once there is room."""
        peer = self.kafka()
        self.files.room = 0
        self.assertEqual(self.codes(peer, creation(4, ("t", 1, 1))), [("t", 56)])
        self.assertEqual(self.broker.topics.names(), [])
        self.files.room = None
        self.assertEqual(self.codes(peer, creation(4, ("t", 1, 1))), [("t", 0)])

    def test_two_at_once(self) -> None:
        """Of two clients that create one topic, one is told that it exists; both see it."""
        one, other = self.kafka(), self.kafka("10.0.0.9")
        one.send(creation(4, ("t", 1, 1)))
        other.send(creation(4, ("t", 1, 1)))
        self.settle()
        found = [topic.error_code for peer in (one, other) for answer in peer.answers() for topic in answer.topics]
        self.assertEqual(sorted(found), [0, 36])

    def test_many_refusals_of_one_request(self) -> None:
        """The first ones are logged each, the others by their number."""
        found = self.codes(self.kafka(), creation(4, *[(f"t {number}", 1, 1) for number in range(500)]))
        self.assertEqual({code for _, code in found}, {17})
        self.assertEqual(len(self.events.warnings("create topic")), 20)
        self.clock.advance(10)
        self.assertEqual(len(self.events.warnings("480 more refusals of requests and logins")), 1)


class ExplicitCreationTests(TopicsTestCase):
    """A broker on which topics are created by CreateTopic alone."""

    options = {"topics_create": "explicit"}  # noqa: RUF012

    def test_creation_is_taken(self) -> None:
        """It is explicit."""
        self.assertEqual(self.codes(self.kafka(), creation(4, ("t", 1, 1))), [("t", 0)])


class LockedTests(TopicsTestCase):
    """A broker that lets clients create, change and delete nothing."""

    options = {"topics_create": False, "administration_requests": False}  # noqa: RUF012

    def test_refusals_name_the_setting(self) -> None:
        """Old clients do not know the code for deletions."""
        self.create("t")
        peer = self.kafka()
        (topic,) = self.ask(peer, creation(4, ("new", 1, 1))).topics
        self.assertEqual(topic.error_code, 44)
        self.assertIn("topics.create = false", topic.error_message)
        for version, code in ((0, 42), (2, 42), (3, 73)):
            answer = self.ask(peer, DeleteTopicsRequest[version](topic_names=["t"], timeout_ms=1000))
            self.assertEqual([(each.name, each.error_code) for each in answer.responses], [("t", code)])
        (result,) = self.ask(peer, growth(1, "t", 2)).results
        self.assertEqual(result.error_code, 44)
        self.assertIn("administration.requests = false", result.error_message)
        self.assertEqual(self.broker.topics.names(), ["t"])


class DeleteTopicsTests(TopicsTestCase):
    """DeleteTopics."""

    def test_every_version(self) -> None:
        """The topic is gone with the answer; an unknown one is an error of its own."""
        peer = self.kafka()
        for version in APIS[20].versions:
            self.create("t", 2)
            answer = self.ask(peer, DeleteTopicsRequest[version](topic_names=["t", "none", "t"], timeout_ms=1000))
            self.assertEqual([(each.name, each.error_code) for each in answer.responses], [("t", 0), ("none", 3)])
            self.assertEqual((self.broker.topics.names(), self.store.logs()), ([], []))


class CreatePartitionsTests(TopicsTestCase):
    """CreatePartitions."""

    def test_every_version(self) -> None:
        """There are as many as asked for, on the brokers that are named."""
        peer = self.kafka()
        self.broker.addresses.native = lambda: {1: ("one", 6667)}
        for version in APIS[37].versions:
            name = f"t{version}"
            self.create(name)
            (result,) = self.ask(peer, growth(version, name, 3, [[1], [0]])).results
            self.assertEqual((result.name, result.error_code), (name, 0))
            self.assertEqual(self.placed(name), {0: (0,), 1: (1,), 2: (0,)})

    def test_refusals(self) -> None:
        """No fewer, no other number of assignments, no other brokers, not too many; nothing changes."""
        self.create("t", 2)
        peer = self.kafka()
        for request, code in (
            (growth(1, "t", 1), 37),
            (growth(1, "t", 2), 37),
            (growth(1, "t", 20_000), 37),
            (growth(1, "t", 3, [[0], [0]]), 39),
            (growth(1, "t", 3, [[9]]), 39),
            (growth(1, "none", 3), 3),
            (growth(1, "none", 3, validate_only=True), 3),
            (growth(1, "t", 3, validate_only=True), 0),
            (growth(1, "t", 2, validate_only=True), 37),
        ):
            (result,) = self.ask(peer, request).results
            self.assertEqual(result.error_code, code, (request, result.error_message))
        self.assertEqual(len(self.placed("t")), 2)
