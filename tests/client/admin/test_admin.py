"""Tests of logd.client.admin.admin, against a broker in memory."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.admin.admin import Admin
from logd.errors import BrokerUnavailable, ConfigurationError, InvalidTopic, UnknownTopic
from tests.client.model import ModelBroker, run


class AdminTests(SynchronousTestCase):
    """Admin."""

    def setUp(self) -> None:
        """A broker with one topic."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t", 2)
        self.admin = Admin("model:6667", reactor=self.clock, connect=self.broker.connect)

    def test_topics(self) -> None:
        """Topics are listed, made, described and deleted."""
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

    def test_failures(self) -> None:
        """What a broker refuses, and what no broker needs to be asked for."""
        for failing, error in (
            (self.admin.describe("no"), UnknownTopic),
            (self.admin.delete("no"), UnknownTopic),
            (self.admin.describe_log("t", 7), Exception),
            (self.admin.create("a/b"), InvalidTopic),
        ):
            run(self.clock, 0.1)
            self.failureResultOf(failing, error)

    def test_describe_log(self) -> None:
        """The ends of a partition's log."""
        self.broker.logs["t"][1].data += b"\0\0\0\1x"
        describing = self.admin.describe_log("t", 1, (4,))
        run(self.clock, 0.1)
        described = self.successResultOf(describing)
        self.assertEqual((described.log_start, described.visible_end, described.boundaries), (0, 5, (0,)))

    def test_no_broker(self) -> None:
        """Without a broker every call fails, soon."""
        self.broker.up = False
        listing = self.admin.topics()
        run(self.clock, 1.0)
        self.failureResultOf(listing, BrokerUnavailable)

    def test_settings(self) -> None:
        """Unknown settings are refused."""
        self.assertRaises(ConfigurationError, Admin, "h:1", reactor=self.clock, acks=1)

    def test_close(self) -> None:
        """close disconnects."""
        self.admin.topics()
        run(self.clock, 0.1)
        self.successResultOf(self.admin.close())
        self.assertTrue(self.broker.connections[0].closed)
