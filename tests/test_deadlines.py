"""Tests of logd.deadlines."""

from __future__ import annotations

import math

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deadlines import Deadlines


class DeadlinesTests(SynchronousTestCase):
    """A single timer for all requests of a connection."""

    def setUp(self) -> None:
        """Collect the keys that are late, on a clock turned by hand."""
        self.clock = Clock()
        self.late: list[str] = []
        self.deadlines = Deadlines(self.clock, self.late.append)

    def test_each_key_is_late_at_its_own_time(self) -> None:
        """The order in which they came does not matter, and none is late twice."""
        self.deadlines.watch("slow", 5)
        self.deadlines.watch("fast", 1)
        self.clock.advance(0.5)
        self.deadlines.watch("later", 2)
        seen = []
        for _ in range(12):
            self.clock.advance(0.5)
            seen.append(list(self.late))
        self.assertEqual(seen[:4], [["fast"], ["fast"], ["fast"], ["fast", "later"]])
        self.assertEqual(self.late, ["fast", "later", "slow"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_time_of_a_deadline(self) -> None:
        """It is that of the clock, and stays the same."""
        self.clock.advance(3)
        self.deadlines.watch("a", 2)
        self.clock.advance(1)
        self.assertEqual(self.deadlines.deadline("a"), 5)
        self.deadlines.stop()

    def test_a_forgotten_key_is_never_late(self) -> None:
        """The timer stays for those to come, which make no other, until the deadlines are stopped."""
        self.deadlines.watch("a", 1)
        self.deadlines.watch("b", 2)
        self.assertTrue(self.deadlines.forget("a"))
        self.assertFalse(self.deadlines.forget("a"))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.deadlines.forget("b")
        for _ in range(3):
            self.deadlines.watch("c", 5)
            self.assertEqual(len(self.clock.getDelayedCalls()), 1)
            self.deadlines.forget("c")
        self.deadlines.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clock.advance(10)
        self.assertEqual(self.late, [])

    def test_a_key_behind_forgotten_ones_is_late_at_its_time(self) -> None:
        """The timer of an earlier key looks, and waits again."""
        self.deadlines.watch("a", 1)
        self.deadlines.forget("a")
        self.clock.advance(0.5)
        self.deadlines.watch("b", 2)
        self.clock.advance(1.9)
        self.assertEqual(self.late, [])
        self.clock.advance(0.2)
        self.assertEqual(self.late, ["b"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_key_without_end_is_never_late(self) -> None:
        """No timer is made for it, and it is found among the keys until it is forgotten."""
        self.deadlines.watch("endless", math.inf)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.deadlines.watch("a", 1)
        self.assertEqual((list(self.deadlines), len(self.deadlines)), (["endless", "a"], 2))
        self.clock.advance(1)
        self.assertEqual((self.late, self.clock.getDelayedCalls()), (["a"], []))
        self.assertTrue(self.deadlines.forget("endless"))

    def test_a_callback_may_change_the_deadlines(self) -> None:
        """Losing a connection over one late answer forgets the others and may begin new ones."""

        def late(key: str) -> None:
            self.late.append(key)
            self.deadlines.forget("b")
            if key == "a":
                self.deadlines.watch("c", 1)

        self.deadlines = Deadlines(self.clock, late)
        self.deadlines.watch("a", 1)
        self.deadlines.watch("b", 1)
        self.clock.advance(1)
        self.assertEqual(self.late, ["a"])
        self.clock.advance(1)
        self.assertEqual(self.late, ["a", "c"])

    def test_a_callback_that_raises_keeps_no_other_key_from_being_late(self) -> None:
        """A bug in one answer must not leave all later ones of the connection without an end."""

        def late(key: str) -> None:
            self.late.append(key)
            if key == "a":
                raise ValueError("a bug")

        self.deadlines = Deadlines(self.clock, late)
        for number, key in enumerate("abc"):
            self.deadlines.watch(key, 1 + number // 2)
        with self.assertRaises(ValueError):
            self.clock.advance(1)
        self.clock.advance(0)
        self.assertEqual(self.late, ["a", "b"])
        self.clock.advance(1)
        self.assertEqual((self.late, self.clock.getDelayedCalls()), (["a", "b", "c"], []))
