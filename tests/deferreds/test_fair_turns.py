"""Tests of logd.deferreds.fair_turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.fair_turns import TURN_SECONDS, FairTurns, RestingWorks
from logd.deferreds.gathering import for_each


class FairTurnsTests(SynchronousTestCase):
    """Work whose items each take a part of a turn."""

    def setUp(self) -> None:
        """Make a clock, and the turns of one work."""
        self.clock = Clock()
        self.resting = RestingWorks(self.clock)
        self.turns = FairTurns(self.clock, self.resting)
        self.done: list[int] = []

    async def work(self, number: int) -> None:
        """Take two thirds of a turn."""
        self.clock.rightNow += TURN_SECONDS * 2 / 3
        self.done.append(number)

    def test_a_turn_is_over_after_its_time(self) -> None:
        """The next one begins with the rest, and has as much time."""
        self.assertFalse(self.turns.over)
        self.clock.advance(TURN_SECONDS)
        self.assertTrue(self.turns.over)
        resting = self.turns.rest()
        self.assertNoResult(resting)
        self.clock.advance(0)
        self.successResultOf(resting)
        self.assertFalse(self.turns.over)

    def test_a_cancelled_rest_leaves_no_timer(self) -> None:
        """It fails with CancelledError."""
        resting = self.turns.rest()
        resting.cancel()
        self.failureResultOf(resting, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_hundred_works_that_do_not_rest_take_the_time_of_few(self) -> None:
        """Each ends before its time is over; those that begin later in the turn have less of it."""
        begun = self.clock.seconds()
        for _ in range(100):
            taken = 0.9 * self.resting.turn_seconds
            self.clock.rightNow += taken
            self.resting.took(taken)
        self.assertLess(self.clock.seconds() - begun, 15 * TURN_SECONDS)
        self.clock.advance(0)
        self.assertEqual(self.resting.turn_seconds, TURN_SECONDS)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_short_works_are_not_counted(self) -> None:
        """Most are: to count them would take a timer in each turn."""
        self.resting.took(TURN_SECONDS / 100)
        self.assertEqual((self.resting.turn_seconds, self.clock.getDelayedCalls()), (TURN_SECONDS, []))

    def test_works_that_wait_for_nothing_take_turns(self) -> None:
        """Several coroutines share the time of one turn, and all of them rest when it is over."""
        working = Deferred.fromCoroutine(for_each(range(6), self.work, 2, self.turns))
        self.assertEqual((self.done, len(self.resting)), ([0, 1], 2))
        self.clock.advance(0)
        self.successResultOf(working)
        self.assertEqual(sorted(self.done), [0, 1, 2, 3, 4, 5])

    def test_works_together_take_the_time_of_one_turn(self) -> None:
        """Of ten long works that rest, each turn of the reactor goes on with two; a cancelled one takes no time."""
        turns: list[list[int]] = []

        async def long_work(number: int) -> None:
            await FairTurns(self.clock, self.resting).rest()
            await self.work(number)

        works = [Deferred.fromCoroutine(long_work(number)) for number in range(10)]
        works[4].addErrback(lambda failure: failure.trap(CancelledError))
        works[4].cancel()
        while len(self.resting):
            (call,) = self.clock.getDelayedCalls()
            turn: Callable[[], None] = cast(Any, call).func
            call.cancel()
            self.done = []
            turn()
            turns.append(self.done)
        self.assertEqual(turns, [[0, 1], [2, 3], [5, 6], [7, 8], [9]])
        for each in works:
            self.successResultOf(each)
