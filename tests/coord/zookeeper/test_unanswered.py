"""Tests of logd.coord.zookeeper.unanswered, the warning that no server answers."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.log_warnings import tell_warnings
from logd.coord.zookeeper.unanswered import REMIND_SECONDS, UnansweredWarning


class UnansweredWarningTests(SynchronousTestCase):
    """The warning, on its way to the person at the terminal."""

    def setUp(self) -> None:
        """Begin without an answer from any server."""
        self.clock = Clock()
        self.lines: list[str] = []
        self.addCleanup(tell_warnings(self.lines.append))
        self.warning = UnansweredWarning(self.clock, "zk:2181", lambda: 0.0)

    def test_silence_is_warned_of_and_reminded(self) -> None:
        """Warnings come after three seconds and after ten minutes, and an answer is reported too."""
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

    def test_an_answer_in_time_warns_of_nothing(self) -> None:
        """An end does not either, and a short session warns earlier."""
        self.warning.begin(10.0)
        self.warning.answered()
        self.warning.begin(1.0)
        self.warning.end()
        self.assertEqual((self.lines, self.clock.getDelayedCalls()), ([], []))
        self.warning.begin(1.0)
        self.clock.advance(1.0)
        self.assertEqual(len(self.lines), 1)
