"""Tests of settings that keep clients from administration, and of the log lines that administration leaves."""

from __future__ import annotations

from twisted.logger import formatEvent

from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.protocol.requests.metadata import Metadata, TopicMetadata
from logd.protocol.requests.repair import Repair
from tests.broker.rig import BrokerTestCase


class ExplicitCreationTests(BrokerTestCase):
    """A broker whose clients make topics by CreateTopic alone, not by using them."""

    options = {"topics_create": "explicit"}  # noqa: RUF012

    def test_metadata_makes_no_topic_here(self) -> None:
        """The error says that a setting forbids it, and CreateTopic still works."""
        peer = self.connect()
        found = self.ask(peer, Metadata(("new",), create=True)).topics
        self.assertEqual(found, (TopicMetadata("new", 112, "", ()),))
        self.assertEqual(self.ask(peer, CreateTopic("new", 1, {})).error, 0)


class NoCreationTests(BrokerTestCase):
    """A broker whose clients make no topics at all."""

    options = {"topics_create": False}  # noqa: RUF012

    def test_creation_is_refused_by_its_setting(self) -> None:
        """The answer names the setting, and the log the client."""
        answer = self.ask(self.connect(), CreateTopic("new", 1, {}))
        self.assertEqual(answer.error, 112)
        self.assertIn("topics.create = false", answer.text)
        self.assertEqual(self.broker.topics.names(), [])
        (line,) = self.events.warnings("create topic 'new': refused")
        self.assertIn("10.0.0.7", line)


class AdministrationTests(BrokerTestCase):
    """A broker that takes requests to create and delete."""

    def test_administration_is_logged_with_the_peer(self) -> None:
        """A name with control characters is escaped, so that it cannot act on the operator's terminal."""
        peer = self.connect()
        self.ask(peer, CreateTopic("t", 2, {}))
        self.ask(peer, DeleteTopic("t"))
        self.ask(peer, CreateTopic("\x1b[2Jgone", 1, {}))
        lines = [formatEvent(event) for event in self.events.events]
        for words in ("10.0.0.7: create topic 't' (partitions = 2): done", "10.0.0.7: delete topic 't': done"):
            self.assertTrue([line for line in lines if words in line], lines)
        self.assertEqual([line for line in lines if "\x1b" in line], [])
        self.assertTrue([line for line in lines if "create topic '\\x1b[2Jgone': refused" in line])


class NoAdministrationTests(BrokerTestCase):
    """A broker that takes no requests to delete or repair."""

    options = {"administration_requests": False}  # noqa: RUF012

    def test_deletion_and_repair_are_refused(self) -> None:
        """The answers name the setting; topics can still be made."""
        peer = self.connect()
        self.assertEqual(self.ask(peer, CreateTopic("t", 1, {})).error, 0)
        for request in (DeleteTopic("t"), Repair("t", 0, dry_run=False)):
            answer = self.ask(peer, request)
            self.assertEqual(answer.error, 116)
            self.assertIn("administration.requests = false", answer.text)
        self.assertEqual(self.broker.topics.names(), ["t"])
