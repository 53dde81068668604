"""Tests of logd.coord.zookeeper.unanswered."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.log_warnings import tell_warnings
from logd.coord.zookeeper.unanswered import REMIND_SECONDS, UnansweredWarning


class UnansweredWarningTests(SynchronousTestCase):
    """UnansweredWarning, and that a person gets to see it."""

    def setUp(self) -> None:
        """No server has answered since the clock began."""
        self.clock = Clock()
        self.lines: list[str] = []
        self.addCleanup(tell_warnings(self.lines.append))
        self.warning = UnansweredWarning(self.clock, "zk:2181", lambda: 0.0)

    def test_warned_and_reminded(self) -> None:
        """It is said after three seconds, again after ten minutes, and that a server answers again."""
        self.warning.begin(10.0)
        self.clock.advance(2.9)
        self.assertEqual(self.lines, [])
        self.clock.advance(0.1)
        self.clock.advance(REMIND_SECONDS)
        self.warning.answered()
        unanswered = "no server of zk:2181 has answered for "
        said = [line.partition(" s:")[0] for line in self.lines]
        self.assertEqual(said, [f"{unanswered}3", f"{unanswered}603", "the coordination tree at zk:2181 answers again"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nothing_said(self) -> None:
        """A server that answers in time, or an end, makes it silent; a short session warns earlier."""
        self.warning.begin(10.0)
        self.warning.answered()
        self.warning.begin(1.0)
        self.warning.end()
        self.assertEqual((self.lines, self.clock.getDelayedCalls()), ([], []))
        self.warning.begin(1.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.lines), 1)
