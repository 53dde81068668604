"""Tests of logd.coord.zookeeper.farewell: callers wait for the end of a session, at most for a time."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.zookeeper.farewell import Farewell


class FarewellTests(SynchronousTestCase):
    """A farewell that may take five seconds."""

    def setUp(self) -> None:
        """Begin the farewell, with a caller that waits."""
        self.clock = Clock()
        self.farewell = Farewell(self.clock)
        self.waiting = self.farewell.wait()
        self.farewell.begin(5.0)

    def test_callers_are_told_when_the_farewell_is_said(self) -> None:
        """Callers before and after it are told, and no timer is left."""
        self.assertNoResult(self.waiting)
        self.farewell.said()
        self.successResultOf(self.waiting)
        self.successResultOf(self.farewell.wait())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_callers_are_told_after_the_limit(self) -> None:
        """A confirmation that comes later has no effect."""
        self.clock.advance(4.9)
        self.assertNoResult(self.waiting)
        self.clock.advance(0.1)
        self.successResultOf(self.waiting)
        self.farewell.said()

    def test_a_caller_that_gives_up_gets_no_error(self) -> None:
        """The other callers wait on."""
        other = self.farewell.wait()
        self.waiting.cancel()
        self.assertIsNone(self.successResultOf(self.waiting))
        self.assertNoResult(other)
        self.farewell.said()
        self.successResultOf(other)
