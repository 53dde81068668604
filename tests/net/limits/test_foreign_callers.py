"""Tests of the log lines about clients that speak other protocols."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.foreign_callers import AGAIN_AFTER, MOST, ForeignCallers
from tests.broker.rig import BrokerTestCase
from tests.protocol.conversation.test_foreign import API_VERSIONS_3


class ForeignCallersTests(SynchronousTestCase):
    """The calls that are logged."""

    def test_repeated_calls_are_logged_sparsely(self) -> None:
        """The first call of each kind and host, then one in a minute with the count of the others."""
        clock = Clock()
        callers = ForeignCallers(clock)
        self.assertEqual([callers.called("Kafka", "a") for _ in range(4)], [0, None, None, None])
        self.assertEqual([callers.called("HTTP", "a"), callers.called("Kafka", "b")], [0, 0])
        clock.advance(AGAIN_AFTER)
        self.assertEqual([callers.called("Kafka", "a") for _ in range(2)], [3, None])

    def test_the_memory_of_callers_is_bounded(self) -> None:
        """A scan from many addresses must not fill it."""
        callers = ForeignCallers(Clock())
        for number in range(3 * MOST):
            self.assertEqual(callers.called("HTTP", str(number)), 0)
        self.assertEqual(len(callers._told), MOST)


class LogTests(BrokerTestCase):
    """A broker that is called by clients of today's Kafka."""

    def test_a_foreign_client_costs_one_line_a_minute(self) -> None:
        """Each of its connections is closed without an answer."""
        for _ in range(5):
            peer = self.connect()
            peer.send_bytes(API_VERSIONS_3)
            self.settle()
            self.assertEqual((peer.lost, peer.received()), (True, b""))
        (line,) = self.events.warnings("Kafka 0.8 or later")
        self.assertIn("10.0.0.7:40000", line)
        self.clock.advance(AGAIN_AFTER)
        peer = self.connect()
        peer.send_bytes(API_VERSIONS_3)
        self.settle()
        self.assertIn("4 more such calls from 10.0.0.7", self.events.warnings("Kafka 0.8 or later")[1])
