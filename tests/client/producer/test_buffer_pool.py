"""Tests of logd.client.producer.buffer_pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.buffer_pool import BufferPool
from logd.errors import ProducerBufferFull


class BufferPoolTests(SynchronousTestCase):
    """``BufferPool``."""

    def setUp(self) -> None:
        """Make a pool of ten bytes in which two may wait."""
        self.pool = BufferPool(10, 2)
        self.admitted: list[str] = []

    def wait(self, name: str, size: int = 10) -> object:
        """Wait for room; once admitted take ``size`` bytes."""

        def admit() -> None:
            self.admitted.append(name)
            self.pool.take(size)

        return self.pool.wait(admit)

    def test_waiters_are_admitted_in_order(self) -> None:
        """The order of a partition's messages depends on it."""
        self.pool.take(10)
        self.wait("a")
        self.wait("b")
        self.pool.give(10)
        self.assertEqual(self.admitted, ["a"])
        self.pool.give(10)
        self.assertEqual(self.admitted, ["a", "b"])

    def test_no_send_overtakes_a_waiter(self) -> None:
        """While one waits there is no free room, even if bytes are free."""
        seen: list[bool] = []
        self.pool.take(10)
        self.pool.wait(lambda: seen.append(self.pool.free))
        self.wait("b", 1)
        self.pool.give(5)
        self.assertEqual((seen, self.pool.free), ([False], True))

    def test_the_room_is_the_limit_or_nothing(self) -> None:
        """It is closed as soon as one waits, for whatever, and open again once none does, or at the end."""
        behind, wait = partial(self.pool.wait_behind, lambda: None), partial(self.wait, "a", 0)
        ways: list[Callable[[], object]] = [self.pool.ready, behind, wait]
        for wait_for_room in ways:
            self.assertEqual(self.pool.room, 10)
            self.pool.take(10)
            wait_for_room()
            self.assertEqual(self.pool.room, 0)
            self.pool.give(10)
        self.assertEqual(self.pool.room, 10)
        self.pool.open()
        self.assertEqual(self.pool.room, self.pool.limit)

    def test_waiters_are_bounded_in_number(self) -> None:
        """One more than allowed is refused; one that leaves makes a place."""
        self.pool.take(10)
        first = self.wait("a")
        self.wait("b")
        self.assertRaises(ProducerBufferFull, self.wait, "c")
        self.pool.leave(first)  # type: ignore[arg-type]  # a Place
        self.wait("c")
        self.pool.give(10)
        self.assertEqual(self.admitted, ["b"])

    def test_ready_waits_behind_earlier_waiters(self) -> None:
        """The Deferred fires when there is room after those, and takes no place that counts."""
        self.assertEqual(self.successResultOf(self.pool.ready()), None)
        self.pool.take(10)
        self.wait("a", 4)
        self.wait("b", 4)
        ready = self.pool.ready()
        self.pool.give(1)
        self.assertNoResult(ready)
        self.pool.give(6)
        self.assertNoResult(ready)
        self.pool.give(2)
        self.successResultOf(ready)
        self.assertEqual(self.admitted, ["a", "b"])

    def test_a_cancelled_ready_holds_up_no_waiter(self) -> None:
        """The next one is admitted as if it had never been there."""
        self.pool.take(10)
        ready = self.pool.ready()
        self.wait("a")
        ready.cancel()
        self.failureResultOf(ready)
        self.pool.give(1)
        self.assertEqual(self.admitted, ["a"])

    def test_cancelled_waits_leave_nothing_behind(self) -> None:
        """A caller that asks again and again, with a timeout, would fill the memory while no broker answers."""
        self.pool.take(10)
        self.wait("a")
        for _ in range(10):
            ready = self.pool.ready()
            ready.cancel()
            self.failureResultOf(ready)
        self.assertEqual(len(self.pool.line), 1)
        self.pool.give(1)
        self.assertEqual((self.admitted, self.pool.room), (["a"], 10))
        ready = self.pool.ready()
        ready.cancel()
        self.failureResultOf(ready)
        self.assertEqual((len(self.pool.line), self.pool.room), (0, 10))

    def test_a_waiter_may_give_back_while_admitted(self) -> None:
        """One admission ends before the next begins, so a long queue does not nest calls."""
        self.pool.take(10)

        def admit() -> None:
            self.admitted.append("a")
            self.pool.give(0)

        self.pool.wait(admit)
        self.pool.wait(lambda: self.admitted.append("b"))
        self.pool.give(10)
        self.assertEqual(self.admitted, ["a", "b"])
