"""Tests of logd.client.admin.admin, against a broker in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.admin.admin import Admin
from logd.errors import (
    BrokerUnavailable,
    ClientClosed,
    ConfigurationError,
    InvalidTopic,
    UnknownTopic,
    UnsupportedVersion,
    WrongPartition,
)
from tests.client.doubles import ModelBroker, run


class AdminTests(SynchronousTestCase):
    """``Admin``."""

    def setUp(self) -> None:
        """Make a broker with one topic."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t", 2)
        self.admin = Admin("model:6667", reactor=self.clock, connect=self.broker.connect)

    def test_topics_are_created_listed_described_and_deleted(self) -> None:
        """Each call is seen in the model, or by the call after it."""
        created = self.admin.create("a", 3)
        run(self.clock, 0.1)
        self.assertEqual(self.successResultOf(created), "uuid")
        listed, described = self.admin.topics(), self.admin.describe("a")
        run(self.clock, 0.1)
        self.assertEqual(self.successResultOf(listed), ["a", "t"])
        self.assertEqual([each.partition for each in self.successResultOf(described).partitions], [0, 1, 2])
        deleted = self.admin.delete("a")
        run(self.clock, 0.1)
        self.successResultOf(deleted)
        self.assertEqual(list(self.broker.logs), ["t"])

    def test_a_failed_call_fires_with_the_matching_error(self) -> None:
        """Errors of the broker and errors found before it is asked arrive by the same way."""
        for failing, error in (
            (self.admin.describe("no"), UnknownTopic),
            (self.admin.delete("no"), UnknownTopic),
            (self.admin.describe_log("t", 7), Exception),
            (self.admin.create("a/b"), InvalidTopic),
        ):
            run(self.clock, 0.1)
            self.failureResultOf(failing, error)

    def test_describe_log_returns_ends_and_boundaries(self) -> None:
        """A position inside an entry is answered with the boundary before it."""
        self.broker.logs["t"][1].data += b"\0\0\0\1x"
        describing = self.admin.describe_log("t", 1, (4,))
        run(self.clock, 0.1)
        described = self.successResultOf(describing)
        self.assertEqual((described.log_start, described.visible_end, described.boundaries), (0, 5, (0,)))

    def test_a_partition_without_a_leader_is_looked_up_again_by_the_next_call(self) -> None:
        """A client that was told once that a partition has no leader must not say so for as long as it lives."""
        asks: tuple[Callable[[str, int], Deferred[Any]], ...] = (self.admin.describe_log, self.repair)
        for ask in asks:
            self.broker.partition_errors["t", 1] = WrongPartition.code
            self.admin.describe("t")
            run(self.clock, 0.1)
            self.broker.partition_errors.clear()
            asking = ask("t", 1)
            run(self.clock, 0.1)
            self.successResultOf(asking)

    def test_a_partition_whose_leader_changed_is_looked_up_again_by_the_next_call(self) -> None:
        """The broker that led it refuses the first call; the second goes to the new one."""
        asks: tuple[Callable[[str, int], Deferred[Any]], ...] = (self.admin.describe_log, self.repair)
        for ask in asks:
            self.broker.leaders.pop(("t", 1), None)
            self.admin.describe("t")
            run(self.clock, 0.1)
            self.broker.leaders["t", 1] = 8
            refused = ask("t", 1)
            run(self.clock, 0.1)
            self.failureResultOf(refused, WrongPartition)
            asking = ask("t", 1)
            run(self.clock, 0.1)
            self.successResultOf(asking)

    def repair(self, topic: str, partition: int) -> Deferred[list[Any]]:
        """Gather all answers of a repair."""

        async def gather() -> list[Any]:
            return [each async for each in self.admin.repair_log(topic, partition)]

        return Deferred.fromCoroutine(gather())

    def test_a_call_without_a_broker_fails_soon(self) -> None:
        """A command for administration must not hang while the cluster is down."""
        self.broker.up = False
        listing = self.admin.topics()
        run(self.clock, 1.0)
        self.failureResultOf(listing, BrokerUnavailable)

    def test_an_unknown_setting_is_refused(self) -> None:
        """``acks`` is a producer's setting: it would have no effect here."""
        self.assertRaises(ConfigurationError, Admin, "h:1", reactor=self.clock, acks=1)

    def test_close_disconnects_from_the_broker(self) -> None:
        """A script would keep its connections otherwise."""
        self.admin.topics()
        run(self.clock, 0.1)
        self.successResultOf(self.admin.close())
        self.assertTrue(self.broker.connections[0].closed)

    def test_a_closed_admin_connects_to_nobody(self) -> None:
        """Also where it never had a connection: one that is opened after the close would be closed by nobody."""
        self.successResultOf(self.admin.close())
        listing = self.admin.topics()
        run(self.clock, 0.1)
        self.failureResultOf(listing, ClientClosed)
        self.assertEqual(self.broker.connections, [])


class AlterTests(SynchronousTestCase):
    """Changes of topics, and brokers of an earlier release."""

    def setUp(self) -> None:
        """Make a broker with one topic."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t", 2)
        self.admin = Admin("model:6667", reactor=self.clock, connect=self.broker.connect)

    def outcome(self, call: Deferred[Any]) -> Any:
        """Return the result of a call."""
        run(self.clock, 0.1)
        return self.successResultOf(call)

    def test_settings_go_as_text(self) -> None:
        """None is the broker's own; partitions and the uuid go as they are."""
        changed = self.outcome(self.admin.alter("t", {"retention.ms": 5, "message.format": "0.7"}, 4, "u"))
        self.assertEqual((changed.uuid, changed.partitions), ("u", 4))
        self.assertEqual(changed.settings, {"retention.ms": "5", "message.format": "0.7"})
        self.assertEqual(self.outcome(self.admin.describe("t")).message_format, "0.7")
        self.assertEqual(self.outcome(self.admin.alter("t", {"retention.ms": None})).settings, {"retention.ms": ""})

    def test_failures_are_the_brokers(self) -> None:
        """A bad name is found before the broker is asked."""
        for failing, error in ((self.admin.alter("no"), UnknownTopic), (self.admin.alter("a/b"), InvalidTopic)):
            run(self.clock, 0.1)
            self.failureResultOf(failing, error)

    def test_text_needs_version_one(self) -> None:
        """A setting that is no number; with numbers alone the request stays as earlier releases know it."""
        self.outcome(self.admin.create("old", 1, {"message.format": "0.7"}))
        self.assertEqual(self.broker.formats, {"old": "0.7"})
        self.broker.old_release = True
        self.outcome(self.admin.create("u", 1, {"retention.ms": 5}))
        failing = self.admin.create("v", 1, {"message.format": "0.7"})
        run(self.clock, 0.1)
        self.failureResultOf(failing, UnsupportedVersion)

    def test_an_earlier_release_is_asked_in_version_0(self) -> None:
        """Its metadata has no formats; AlterTopic it cannot do."""
        self.broker.old_release = True
        described = self.outcome(self.admin.describe("t"))
        self.assertEqual((described.topic, described.message_format), ("t", "any"))
        failing = self.admin.alter("t", partitions=3)
        run(self.clock, 0.1)
        self.failureResultOf(failing, UnsupportedVersion)

    def test_metadata_has_the_clusters_uuid(self) -> None:
        """From brokers that know it."""
        self.assertEqual(self.outcome(self.admin.metadata()).cluster, "uuid of the cluster")
