"""Tests of AlterTopic, and of version 1 of CreateTopic and Metadata."""

from __future__ import annotations

from attrs import evolve
from twisted.logger import formatEvent

from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicResponseV1, CreateTopicV1
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.metadata import Metadata, MetadataResponse, MetadataResponseV1, MetadataV1
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain


class AlterTopicTests(BrokerTestCase):
    """A topic, and a client that changes it."""

    def setUp(self) -> None:
        """Create the topic, and connect."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()

    def test_settings_change_at_once(self) -> None:
        """The answer has all settings of the topic's own, as text."""
        entry = self.broker.topics.get("t")
        assert entry is not None
        settings = {"retention.ms": "5", "message.format": "0.7"}
        answer = self.ask(self.peer, AlterTopic("t", entry.uuid, 0, settings))
        self.assertEqual(answer, AlterTopicResponse(0, entry.uuid, 2, settings))
        self.assertEqual(self.log_of("t").settings.retention_ms, 5)
        answer = self.ask(self.peer, AlterTopic("t", settings={"message.format": ""}))
        self.assertEqual(answer.settings, {"retention.ms": "5"})

    def test_settings_of_kafka_are_told(self) -> None:
        """With cleanup.policy=compact a topic is kept whole, whatever the others say."""
        change = self.broker.administration.change(
            "t", lambda entry: evolve(entry, kafka_settings={"cleanup.policy": "compact"})
        )
        self.settle()
        self.successResultOf(change)
        answer = self.ask(self.peer, AlterTopic("t", settings={"retention.ms": "5"}))
        self.assertEqual(answer.settings, {"retention.ms": "5", "cleanup.policy": "compact"})

    def test_a_topic_grows(self) -> None:
        """Requests to the new partitions are taken right behind the answer."""
        self.assertEqual(self.ask(self.peer, AlterTopic("t", partitions=4)).partitions, 4)
        for number in range(4):
            self.assertEqual(self.produce(self.peer, "t", plain(b"x"), number).error, 0)

    def test_a_refusal_has_its_reason(self) -> None:
        """The number of the error, and a text for people; it is logged with the peer."""
        answer = self.ask(self.peer, AlterTopic("t", partitions=1))
        self.assertEqual((answer.error, "cannot have 1" in answer.text), (103, True))
        self.assertEqual(self.ask(self.peer, AlterTopic("none", partitions=1)).error, 101)
        self.assertEqual(len(self.events.warnings("anonymous at 10.0.0.7: change topic 't': refused")), 1)

    def test_a_question_is_not_logged(self) -> None:
        """A mirror asks every few seconds what the target has, and changes nothing."""
        self.assertEqual(self.ask(self.peer, AlterTopic("t")).partitions, 2)
        self.assertEqual(self.ask(self.peer, AlterTopic("none")).error, 101)
        self.assertEqual([formatEvent(event) for event in self.events.events if "10.0.0.7" in formatEvent(event)], [])


class ForbiddenTests(BrokerTestCase):
    """A broker that takes no administration from clients."""

    options = {"administration_requests": False}  # noqa: RUF012

    def test_topics_are_not_changed(self) -> None:
        """As they are not deleted."""
        self.create("t")
        answer = self.ask(self.connect(), AlterTopic("t", partitions=2))
        self.assertEqual((answer.error, len(self.store.logs())), (116, 1))


class VersionOneTests(BrokerTestCase):
    """Version 1 of CreateTopic and Metadata, beside version 0."""

    def test_settings_may_be_text(self) -> None:
        """The broker reads them as it reads its own; version 0 still takes numbers."""
        peer = self.connect()
        answer = self.ask(peer, CreateTopicV1("t", 2, {"retention.ms": "5", "message.format": "0.7"}))
        self.assertIs(type(answer), CreateTopicResponseV1)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((answer.error, answer.uuid), (0, entry.uuid))
        self.assertEqual(entry.settings, {"retention.ms": 5, "message.format": "0.7"})
        self.assertEqual(self.ask(peer, CreateTopic("u", 1, {"retention.ms": 5})).error, 0)
        for settings in ({"retention.ms": "soon"}, {"retention": "5"}):
            self.assertEqual(self.ask(peer, CreateTopicV1("v", 1, settings)).error, 103)

    def test_metadata_has_formats_and_the_cluster(self) -> None:
        """Also of topics that a produce of 0.7 or the request itself has created; version 0 has neither."""
        peer = self.connect()
        peer.send(Produce("old", 0, plain(b"x")))
        self.settle()
        answer = self.ask(peer, MetadataV1(("old", "new", "no good"), create=True))
        self.assertIs(type(answer), MetadataResponseV1)
        self.assertEqual(answer.cluster, self.broker.topics.cluster())
        self.assertTrue(answer.cluster)
        found = [(topic.topic, topic.error, topic.message_format) for topic in answer.topics]
        self.assertEqual(found, [("old", 0, "0.7"), ("new", 0, "any"), ("no good", 103, "any")])
        former = self.ask(peer, Metadata(("old",)))
        self.assertIs(type(former), MetadataResponse)
        self.assertEqual((former.cluster, former.topics[0].message_format), ("", "any"))


class BrokersFormatTests(BrokerTestCase):
    """A broker whose topics have message.format = 0.7 unless they have their own."""

    log_options = {"message_format": "0.7"}  # noqa: RUF012

    def test_clients_are_told_the_format_that_holds(self) -> None:
        """The topic's own counts before the broker's."""
        self.create("t")
        self.create("u", message_format="any")
        found = self.ask(self.connect(), MetadataV1(None)).topics
        self.assertEqual([topic.message_format for topic in found], ["0.7", "any"])
