"""Tests of calls that are made again and again."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.repeating import RepeatedCall


class RepeatedCallTests(SynchronousTestCase):
    """RepeatedCall on a clock."""

    def test_it_is_made_at_each_interval_until_the_stop(self) -> None:
        """The first call comes after an interval, and none after the stop."""
        clock, made = Clock(), list[float]()
        call = RepeatedCall(clock, 2.0, lambda: made.append(clock.seconds()))
        call.start()
        clock.pump([1.0] * 5)
        call.stop()
        clock.pump([1.0] * 5)
        self.assertEqual(made, [2.0, 4.0])
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_call_that_raises_is_made_again(self) -> None:
        """Housekeeping that fails once goes on."""
        clock = Clock()
        call = RepeatedCall(clock, 1.0, lambda: 1 // 0)
        call.start()
        self.assertRaises(ZeroDivisionError, clock.advance, 1.0)
        self.assertRaises(ZeroDivisionError, clock.advance, 1.0)

    def test_a_call_can_stop_itself(self) -> None:
        """The next call is scheduled before the call is made, and is cancelled then."""
        clock, made = Clock(), list[int]()

        def work() -> None:
            made.append(1)
            call.stop()

        call = RepeatedCall(clock, 1.0, work)
        call.start()
        clock.pump([1.0] * 3)
        self.assertEqual(made, [1])
