"""Tests of logd.deferreds.fair_turns."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.fair_turns import TURN_SECONDS, FairTurns
from logd.deferreds.gathering import for_each


class FairTurnsTests(SynchronousTestCase):
    """Work whose items each take a part of a turn."""

    def setUp(self) -> None:
        """Make a clock, and the turns of one work."""
        self.clock = Clock()
        self.turns = FairTurns(self.clock)
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

    def test_works_that_wait_for_nothing_take_turns(self) -> None:
        """Several coroutines share the time of one turn, and all of them rest when it is over."""
        working = Deferred.fromCoroutine(for_each(range(6), self.work, 2, self.turns))
        self.assertEqual((self.done, len(self.clock.getDelayedCalls())), ([0, 1], 2))
        self.clock.advance(0)
        self.successResultOf(working)
        self.assertEqual(sorted(self.done), [0, 1, 2, 3, 4, 5])
