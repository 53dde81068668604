"""Tests of logd.coord.zookeeper.heartbeat: when a server was last heard of, and when it is given up."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import ConnectionLoss
from logd.coord.zookeeper.heartbeat import Heartbeat


class HeartbeatTests(SynchronousTestCase):
    """A session of six seconds, with a look each second."""

    def setUp(self) -> None:
        """Begin half a second after the last contact."""
        self.clock = Clock()
        self.probes: list[Deferred[object]] = []
        self.given_up = 0
        self.heartbeat = Heartbeat(self.clock, self.probe, self.give_up)
        self.clock.advance(100.0)
        self.heartbeat.begin(99.5, 6.0)

    def probe(self) -> Deferred[object]:
        """Send a probe."""
        self.probes.append(Deferred())
        return self.probes[-1]

    def give_up(self) -> None:
        """Count that the connection is given up."""
        self.given_up += 1

    def test_contact_counts_from_the_sending(self) -> None:
        """The message that was answered counts from its sending, and time never goes back."""
        self.assertEqual(self.heartbeat.last, 99.5)
        self.heartbeat.heard(101.0)
        self.heartbeat.heard(100.5)
        self.assertEqual(self.heartbeat.last, 101.0)

    def test_one_probe_is_under_way_at_a_time(self) -> None:
        """A look while it is under way sends none."""
        self.clock.advance(1.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 1)
        self.probes[0].callback(None)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
        self.assertEqual(self.given_up, 0)

    def test_an_unanswered_probe_gives_the_connection_up(self) -> None:
        """It does so once, after two thirds of the timeout."""
        self.clock.advance(1.0)
        for _ in range(3):
            self.clock.advance(1.0)
        self.assertEqual(self.given_up, 0)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 1)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 1)

    def test_a_standstill_gives_nothing_up(self) -> None:
        """The answers that wait in the socket after an hour's pause are heard first."""
        self.clock.advance(1.0)
        self.clock.advance(3600.0)
        self.assertEqual(self.given_up, 0)
        self.probes[0].callback(None)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 0)

    def test_an_ended_heartbeat_leaves_no_timer(self) -> None:
        """A probe of the old connection does not count for the new one."""
        self.clock.advance(1.0)
        self.heartbeat.end()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.heartbeat.begin(101.5, 6.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
        self.probes[0].errback(ConnectionLoss())
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
