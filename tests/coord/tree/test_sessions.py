"""Tests of logd.coord.tree.sessions: the sessions that are due."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.tree.sessions import SessionTracker


class SessionTrackerTests(SynchronousTestCase):
    """Sessions are due by the time in which the process ran."""

    def setUp(self) -> None:
        """Begin at 100 s."""
        self.now = 100.0
        self.tracker = SessionTracker(self.now, longest_step=1.0)

    def run_for(self, seconds: float) -> list[int]:
        """Look twice a second; return the sessions that are due at the end."""
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.tracker.due(self.now)
        return self.tracker.due(self.now)

    def test_a_session_is_due_after_its_timeout(self) -> None:
        """The one that is due longest comes first."""
        self.tracker.add(1, 5.0, self.now)
        self.tracker.add(2, 3.0, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [2])
        self.assertEqual(self.run_for(2), [2, 1])

    def test_a_ping_gives_the_whole_timeout_again(self) -> None:
        """The time before that does not count any more."""
        self.tracker.add(1, 3.0, self.now)
        self.run_for(2.5)
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_a_standstill_counts_as_the_longest_step(self) -> None:
        """The time in which the process did not run is no client's fault."""
        self.tracker.add(1, 3.0, self.now)
        self.run_for(1.5)
        self.now += 1_000
        self.assertEqual(self.tracker.due(self.now), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_a_session_heard_of_after_a_pause_gets_its_timeout(self) -> None:
        """It gets no more than that, although it is heard of before anything looks."""
        self.tracker.add(1, 3.0, self.now)
        self.now += 1_000
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(2.5), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_a_clock_that_is_set_back_counts_no_time(self) -> None:
        """The step in which it is set back counts as nothing."""
        self.tracker.add(1, 3.0, self.now)
        self.now -= 1_000
        self.assertEqual(self.run_for(3), [])
        self.assertEqual(self.run_for(0.5), [1])

    def test_a_removed_session_is_never_due(self) -> None:
        """Hearing of it does not bring it back."""
        self.tracker.add(1, 1.0, self.now)
        self.tracker.remove(1)
        self.tracker.remove(1)
        self.tracker.heard(1, self.now)
        self.assertEqual(self.run_for(5), [])
