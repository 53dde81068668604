"""Tests of logd.client.cluster.deadlines."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.deadlines import Deadlines


class DeadlinesTests(SynchronousTestCase):
    """One timer for all."""

    def setUp(self) -> None:
        """A clock turned by hand."""
        self.clock = Clock()
        self.late: list[str] = []
        self.deadlines = Deadlines(self.clock, self.late.append)

    def test_late(self) -> None:
        """Each key is late at its own time, whatever the order in which they came, and only once."""
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

    def test_forgotten(self) -> None:
        """What is forgotten in time is never late, and no timer stays behind."""
        self.deadlines.watch("a", 1)
        self.deadlines.watch("b", 2)
        self.assertTrue(self.deadlines.forget("a"))
        self.assertFalse(self.deadlines.forget("a"))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.deadlines.forget("b")
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clock.advance(10)
        self.assertEqual(self.late, [])

    def test_from_inside(self) -> None:
        """Whoever is told that something is late may forget the rest, or watch something new."""

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
