"""Tests of logd.coord.tree.sessions: which sessions are due."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.tree.sessions import SessionTracker


class SessionTrackerTests(SynchronousTestCase):
    """Sessions are due by the time in which the process ran."""

    def setUp(self) -> None:
        """Time stands at 100 s."""
        self.now = 100.0
        self.tracker = SessionTracker(self.now, longest_step=1.0)

    def run_for(self, seconds: float) -> list[int]:
        """Look twice a second; return what is due at the end."""
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.tracker.due(self.now)
        return self.tracker.due(self.now)

    def test_due(self) -> None:
        """A session is due once its timeout has passed, the longest due first."""
        self.tracker.add(1, 5.0, self.now)
        self.tracker.add(2, 3.0, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [2])
        self.assertEqual(self.run_for(2), [2, 1])

    def test_heard(self) -> None:
        """Who is heard of has the whole timeout again."""
        self.tracker.add(1, 3.0, self.now)
        self.run_for(2.5)
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_standing_still(self) -> None:
        """Of a pause only the longest step counts."""
        self.tracker.add(1, 3.0, self.now)
        self.run_for(1.5)
        self.now += 1_000
        self.assertEqual(self.tracker.due(self.now), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_heard_behind_a_pause(self) -> None:
        """A client that is heard of behind a pause, before anybody looks, gets no more than its timeout."""
        self.tracker.add(1, 3.0, self.now)
        self.now += 1_000
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_clock_set_back(self) -> None:
        """The step with which a clock is set back counts as no time."""
        self.tracker.add(1, 3.0, self.now)
        self.now -= 1_000
        self.assertEqual(self.run_for(3), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_removed(self) -> None:
        """A session that is over is never due, and hearing of it does not bring it back."""
        self.tracker.add(1, 1.0, self.now)
        self.tracker.remove(1)
        self.tracker.remove(1)
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(5), [])
