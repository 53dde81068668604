"""Tests of logd.deferreds.sleeping."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.sleeping import InterruptibleSleep, sleep


class SleepTests(SynchronousTestCase):
    """A sleep by itself."""

    def test_ends_in_time(self) -> None:
        """A sleep fires when its time is over, and not before."""
        clock = Clock()
        sleeping = sleep(clock, 2.0)
        clock.advance(1.9)
        self.assertNoResult(sleeping)
        clock.advance(0.2)
        self.assertIsNone(self.successResultOf(sleeping))

    def test_cancelled(self) -> None:
        """A cancelled sleep fails and leaves no timer behind."""
        clock = Clock()
        sleeping = sleep(clock, 2.0)
        sleeping.cancel()
        self.failureResultOf(sleeping, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])


class InterruptibleSleepTests(SynchronousTestCase):
    """Sleeps that others may end."""

    def setUp(self) -> None:
        """A clock, and the sleeps of one coroutine."""
        self.clock = Clock()
        self.sleeps = InterruptibleSleep(self.clock)

    def test_ends_in_time(self) -> None:
        """A sleep that nobody ends fires when its time is over; a call of wake behind that is without effect."""
        sleeping = self.sleeps.sleep(1.0)
        self.assertTrue(self.sleeps.can_be_woken)
        self.clock.advance(1.0)
        self.successResultOf(sleeping)
        self.assertFalse(self.sleeps.can_be_woken)
        self.sleeps.wake()

    def test_woken(self) -> None:
        """A sleep that is ended before its time leaves no timer behind, and takes no second call."""
        sleeping = self.sleeps.sleep(1.0)
        sleeping.addCallback(lambda _: self.sleeps.wake())
        self.sleeps.wake()
        self.successResultOf(sleeping)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_without_end(self) -> None:
        """A sleep of no length lasts until it is ended."""
        sleeping = self.sleeps.sleep(None)
        self.clock.advance(1e9)
        self.assertNoResult(sleeping)
        self.sleeps.wake()
        self.successResultOf(sleeping)

    def test_uninterruptible(self) -> None:
        """A sleep that is to last goes on when somebody calls wake."""
        sleeping = self.sleeps.sleep(1.0, interruptible=False)
        self.assertFalse(self.sleeps.can_be_woken)
        self.sleeps.wake()
        self.assertNoResult(sleeping)
        self.clock.advance(1.0)
        self.successResultOf(sleeping)

    def test_cancelled(self) -> None:
        """A cancelled sleep fails, leaves no timer behind, and is not there to be ended."""
        sleeping = self.sleeps.sleep(1.0)
        sleeping.cancel()
        self.failureResultOf(sleeping, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertFalse(self.sleeps.can_be_woken)

    def test_sleeps_again_at_once(self) -> None:
        """What a sleeper begins when it is woken is a sleep of its own, which that call does not end."""
        first = self.sleeps.sleep(1.0)
        second = first.addCallback(lambda _: self.sleeps.sleep(5.0))
        self.sleeps.wake()
        self.assertNoResult(second)
        self.assertTrue(self.sleeps.can_be_woken)
        self.clock.advance(5.0)
        self.successResultOf(second)
