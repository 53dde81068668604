"""Tests of logd.deferreds.stepped_works."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.fair_turns import TURN_SECONDS
from logd.deferreds.stepped_works import SteppedWorks


class SteppedWorksTests(SynchronousTestCase):
    """Works of which two may hold memory at a time, and whose steps take two thirds of a turn."""

    def setUp(self) -> None:
        """Make the works."""
        self.clock = Clock()
        self.works = SteppedWorks(self.clock, 2)
        #: The works that hold memory, and the most that there were.
        self.holding: set[str] = set()
        self.most = 0
        self.done: list[str] = []

    def steps(self, name: str, holds: str) -> Generator[bool, None, str]:
        """Take steps: those for "x" hold memory, up to the next that does not."""
        for each in holds:
            if each == "-":
                self.holding.discard(name)
            yield each == "x"
            self.clock.rightNow += TURN_SECONDS * 2 / 3
            self.done.append(name)
            if each == "x":
                self.holding.add(name)
            self.most = max(self.most, len(self.holding))
        self.holding.discard(name)
        return name * 2

    def run_steps(self, name: str, holds: str) -> Deferred[str]:
        """Begin a work."""
        return Deferred.fromCoroutine(self.works.run(self.steps(name, holds)))

    def test_a_short_work_ends_at_once(self) -> None:
        """So most sets leave without a rest."""
        self.assertEqual(self.successResultOf(self.run_steps("a", "")), "aa")
        self.assertEqual(self.successResultOf(self.run_steps("a", "x")), "aa")
        self.assertEqual(self.done, ["a"])

    def test_works_take_turns(self) -> None:
        """Each rests once its turn is over, and the others go on."""
        works = [self.run_steps(name, "----") for name in "ab"]
        self.assertEqual(self.done[:2], ["a", "a"])
        self.assertNoResult(works[0])
        self.clock.advance(0)
        self.assertEqual([self.successResultOf(each) for each in works], ["aa", "bb"])
        self.assertLess(self.done.index("b"), 4)

    def test_few_hold_memory_at_a_time(self) -> None:
        """The others wait for a place, which they are given in order, also where one ends between its steps."""
        works = [self.run_steps(name, "xxx-xx-") for name in "abcd"]
        self.clock.advance(0)
        self.assertEqual([self.successResultOf(each) for each in works], ["aa", "bb", "cc", "dd"])
        self.assertEqual(self.most, 2)

    def test_a_work_that_holds_nothing_needs_no_place(self) -> None:
        """It does not wait for those that do."""
        for name in "ab":
            self.run_steps(name, "x" * 1000)
        other = self.run_steps("c", "---")
        for _ in range(5):
            (call,) = self.clock.getDelayedCalls()
            turn: Callable[[], None] = cast(Any, call).func
            call.cancel()
            turn()
        self.assertEqual(self.successResultOf(other), "cc")

    def test_a_cancelled_work_gives_its_place_up(self) -> None:
        """A work that rests does, and one that waits for a place; the next one goes on."""
        works = [self.run_steps(name, "xxxx") for name in "abcd"]
        for number in (2, 0):
            works[number].cancel()
            self.failureResultOf(works[number], CancelledError)
        self.clock.advance(0)
        self.assertEqual([self.successResultOf(works[number]) for number in (1, 3)], ["bb", "dd"])
        self.assertEqual((self.clock.getDelayedCalls(), self.done.count("c")), ([], 0))

    def test_an_error_of_a_step_gives_its_place_up(self) -> None:
        """It is the work's own."""

        def wrong() -> Generator[bool, None, None]:
            yield True
            raise ValueError("wrong")

        for _ in range(3):
            self.failureResultOf(Deferred.fromCoroutine(self.works.run(wrong())), ValueError)
        self.assertEqual(self.successResultOf(self.run_steps("a", "x")), "aa")

    def test_works_that_begin_in_one_turn_share_it(self) -> None:
        """A hundred partitions may have something to do at once."""
        begun = self.clock.seconds()
        for _ in range(100):
            self.successResultOf(self.run_steps("a", "-"))
        self.assertEqual(len(self.done), 100)
        self.done.clear()
        for _ in range(100):
            self.run_steps("a", "----")
        self.assertLess(len(self.done), 250)
        self.assertGreater(self.clock.seconds(), begun)
