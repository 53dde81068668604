"""When the server was last heard of, and when it is given up."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import ConnectionLoss
from logd.coord.zookeeper.heartbeat import Heartbeat


class HeartbeatTests(SynchronousTestCase):
    """A session of six seconds: a look each second."""

    def setUp(self) -> None:
        """Connect it."""
        self.clock = Clock()
        self.probes: list[Deferred[object]] = []
        self.given_up = 0
        self.heartbeat = Heartbeat(self.clock, self.probe, self.give_up)
        self.clock.advance(100.0)
        self.heartbeat.begin(99.5, 6.0)

    def probe(self) -> Deferred[object]:
        """Send one."""
        self.probes.append(Deferred())
        return self.probes[-1]

    def give_up(self) -> None:
        """Count."""
        self.given_up += 1

    def test_counts_from_the_sending(self) -> None:
        """What was sent at a time and answered later counts from when it was sent, and never backwards."""
        self.assertEqual(self.heartbeat.last, 99.5)
        self.heartbeat.heard(101.0)
        self.heartbeat.heard(100.5)
        self.assertEqual(self.heartbeat.last, 101.0)

    def test_probes(self) -> None:
        """One leaves at each look, but none while another is under way."""
        self.clock.advance(1.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 1)
        self.probes[0].callback(None)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
        self.assertEqual(self.given_up, 0)

    def test_silence(self) -> None:
        """A probe that is not answered for two thirds of the timeout is given up with its connection, once."""
        self.clock.advance(1.0)
        for _ in range(3):
            self.clock.advance(1.0)
        self.assertEqual(self.given_up, 0)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 1)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 1)

    def test_standstill(self) -> None:
        """A process that stood still for an hour gives nothing up before it has heard what waits for it."""
        self.clock.advance(1.0)
        self.clock.advance(3600.0)
        self.assertEqual(self.given_up, 0)
        self.probes[0].callback(None)
        self.clock.advance(1.0)
        self.assertEqual(self.given_up, 0)

    def test_ends(self) -> None:
        """Without a connection there is no timer, and a probe of the old one is nobody's."""
        self.clock.advance(1.0)
        self.heartbeat.end()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.heartbeat.begin(101.5, 6.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
        self.probes[0].errback(ConnectionLoss())
        self.clock.advance(1.0)
        self.assertEqual(len(self.probes), 2)
