"""Tests of logd.deferreds.timeouts."""

from __future__ import annotations

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.timeouts import fired_within, with_timeout


class WithTimeoutTests(SynchronousTestCase):
    """Waiting that cancels what it waits for."""

    def test_a_result_in_time_is_handed_on(self) -> None:
        """No timer is left behind it."""
        clock = Clock()
        waiting: Deferred[int] = Deferred()
        limited = with_timeout(clock, 1.0, waiting)
        waiting.callback(7)
        self.assertEqual(self.successResultOf(limited), 7)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_deferred_that_is_late_is_cancelled(self) -> None:
        """The caller gets TimeoutError, not the CancelledError."""
        clock = Clock()
        cancelled: list[object] = []
        waiting: Deferred[int] = Deferred(cancelled.append)
        limited = with_timeout(clock, 1.0, waiting)
        clock.advance(1.0)
        self.failureResultOf(limited, defer.TimeoutError)
        self.assertEqual(len(cancelled), 1)


class FiredWithinTests(SynchronousTestCase):
    """Waiting that leaves alone what it waits for."""

    def test_a_deferred_that_ends_in_time_gives_true(self) -> None:
        """One that has ended already does too, and no timer is left."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        self.assertNoResult(fired)
        doing.callback(7)
        self.assertTrue(self.successResultOf(fired))
        self.assertTrue(self.successResultOf(fired_within(clock, 1.0, succeed(1))))
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_deferred_that_is_late_gives_false_and_goes_on(self) -> None:
        """It is not cancelled, and its end afterwards is not reported a second time."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        clock.advance(1.0)
        self.assertFalse(self.successResultOf(fired))
        doing.callback(7)

    def test_a_failure_counts_as_an_end_and_is_logged(self) -> None:
        """It is logged in time and too late alike."""
        clock = Clock()
        self.assertTrue(self.successResultOf(fired_within(clock, 1.0, fail(ValueError("early")))))
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        clock.advance(1.0)
        doing.errback(ValueError("late"))
        self.assertFalse(self.successResultOf(fired))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_giving_up_the_wait_cancels_nothing_else(self) -> None:
        """No timer is left, and the Deferred that was waited for goes on."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        fired.cancel()
        self.failureResultOf(fired, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])
        doing.callback(7)
