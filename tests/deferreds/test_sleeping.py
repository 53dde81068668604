"""Tests of logd.deferreds.sleeping."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.sleeping import InterruptibleSleep, sleep


class SleepTests(SynchronousTestCase):
    """A sleep that nothing but its time or a cancel ends."""

    def test_a_sleep_fires_when_its_time_is_over(self) -> None:
        """It does not fire a tenth of a second earlier."""
        clock = Clock()
        sleeping = sleep(clock, 2.0)
        clock.advance(1.9)
        self.assertNoResult(sleeping)
        clock.advance(0.2)
        self.assertIsNone(self.successResultOf(sleeping))

    def test_a_cancelled_sleep_leaves_no_timer(self) -> None:
        """It fails with CancelledError at once."""
        clock = Clock()
        sleeping = sleep(clock, 2.0)
        sleeping.cancel()
        self.failureResultOf(sleeping, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])


class InterruptibleSleepTests(SynchronousTestCase):
    """Sleeps that another caller may end."""

    def setUp(self) -> None:
        """Make a clock, and the sleeps of one coroutine."""
        self.clock = Clock()
        self.sleeps = InterruptibleSleep(self.clock)

    def test_a_sleep_that_is_not_woken_fires_in_time(self) -> None:
        """A later call of wake has no effect."""
        sleeping = self.sleeps.sleep(1.0)
        self.assertTrue(self.sleeps.can_be_woken)
        self.clock.advance(1.0)
        self.successResultOf(sleeping)
        self.assertFalse(self.sleeps.can_be_woken)
        self.sleeps.wake()

    def test_a_woken_sleep_leaves_no_timer(self) -> None:
        """A second wake, from inside the first one, does no harm."""
        sleeping = self.sleeps.sleep(1.0)
        sleeping.addCallback(lambda _: self.sleeps.wake())
        self.sleeps.wake()
        self.successResultOf(sleeping)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_sleep_without_length_lasts_until_woken(self) -> None:
        """No amount of time ends it."""
        sleeping = self.sleeps.sleep(None)
        self.clock.advance(1e9)
        self.assertNoResult(sleeping)
        self.sleeps.wake()
        self.successResultOf(sleeping)

    def test_wake_does_not_end_an_uninterruptible_sleep(self) -> None:
        """It goes on until its time is over, and `can_be_woken` says so."""
        sleeping = self.sleeps.sleep(1.0, interruptible=False)
        self.assertFalse(self.sleeps.can_be_woken)
        self.sleeps.wake()
        self.assertNoResult(sleeping)
        self.clock.advance(1.0)
        self.successResultOf(sleeping)

    def test_a_cancelled_sleep_cannot_be_woken(self) -> None:
        """It fails, and leaves no timer behind."""
        sleeping = self.sleeps.sleep(1.0)
        sleeping.cancel()
        self.failureResultOf(sleeping, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertFalse(self.sleeps.can_be_woken)

    def test_wake_ends_no_sleep_that_begins_inside_it(self) -> None:
        """A sleeper that sleeps again when it is woken would otherwise never sleep."""
        first = self.sleeps.sleep(1.0)
        second = first.addCallback(lambda _: self.sleeps.sleep(5.0))
        self.sleeps.wake()
        self.assertNoResult(second)
        self.assertTrue(self.sleeps.can_be_woken)
        self.clock.advance(5.0)
        self.successResultOf(second)
