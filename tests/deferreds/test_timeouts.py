"""Tests of logd.deferreds.timeouts."""

from __future__ import annotations

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.timeouts import fired_within, with_timeout


class TimeoutTests(SynchronousTestCase):
    """Waiting that ends what is waited for."""

    def test_in_time(self) -> None:
        """What fires in time is handed on, and no timer is left."""
        clock = Clock()
        waiting: Deferred[int] = Deferred()
        limited = with_timeout(clock, 1.0, waiting)
        waiting.callback(7)
        self.assertEqual(self.successResultOf(limited), 7)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """What does not fire in time is cancelled, and fails with TimeoutError."""
        clock = Clock()
        cancelled: list[object] = []
        waiting: Deferred[int] = Deferred(cancelled.append)
        limited = with_timeout(clock, 1.0, waiting)
        clock.advance(1.0)
        self.failureResultOf(limited, defer.TimeoutError)
        self.assertEqual(len(cancelled), 1)


class FiredWithinTests(SynchronousTestCase):
    """Waiting that leaves alone what is waited for."""

    def test_in_time(self) -> None:
        """What ends in time is told, also when it has ended already, and no timer is left."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        self.assertNoResult(fired)
        doing.callback(7)
        self.assertTrue(self.successResultOf(fired))
        self.assertTrue(self.successResultOf(fired_within(clock, 1.0, succeed(1))))
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """At the deadline it fires with False; what goes on is neither cancelled nor told twice when it ends."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        clock.advance(1.0)
        self.assertFalse(self.successResultOf(fired))
        doing.callback(7)

    def test_failure(self) -> None:
        """A failure is logged and counts as an end, whether it comes in time or not."""
        clock = Clock()
        self.assertTrue(self.successResultOf(fired_within(clock, 1.0, fail(ValueError("early")))))
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        clock.advance(1.0)
        doing.errback(ValueError("late"))
        self.assertFalse(self.successResultOf(fired))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_cancelled(self) -> None:
        """To give up waiting leaves no timer, and what is waited for goes on."""
        clock = Clock()
        doing: Deferred[int] = Deferred()
        fired = fired_within(clock, 1.0, doing)
        fired.cancel()
        self.failureResultOf(fired, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])
        doing.callback(7)
