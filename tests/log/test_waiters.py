"""Tests of logd.log.visibility.waiters: listeners that wait until a position is visible."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IFlushListener
from logd.log.visibility.waiters import VisibilityWaiters, Wait
from tests.log.rig import Listener


class WaitersTests(SynchronousTestCase):
    """Waits, by position."""

    def test_listeners_are_called_in_order(self) -> None:
        """The order is that of positions, then that of the waits."""
        verifyObject(IFlushListener, Listener())
        random = Random(1)
        waiters = VisibilityWaiters(self.fail)
        order: list[tuple[int, int]] = []

        class Ordered(Listener):
            def __init__(self, key: tuple[int, int]) -> None:
                super().__init__()
                self.key = key

            def visible(self, end: int) -> None:
                order.append(self.key)

        keys = [(random.randrange(10), number) for number in range(200)]
        for key in keys:
            waiters.add(key[0], Ordered(key))
        waiters.reached(4)
        self.assertEqual(order, sorted(key for key in keys if key[0] <= 4))
        waiters.reached(100)
        self.assertEqual(order, sorted(keys))

    def test_cancelled_waits_are_forgotten(self) -> None:
        """Long polls that time out again and again would pile up."""
        waiters = VisibilityWaiters(self.fail)
        kept = waiters.add(5, Listener())
        for _ in range(10_000):
            waiters.add(10, Listener()).cancel()
        self.assertEqual(len(waiters), 1)
        self.assertLess(len(waiters._heap), 200)
        self.assertIsNotNone(kept.listener)

    def test_a_listener_may_wait_and_cancel(self) -> None:
        """The listener adds a wait and cancels another one while it is called."""
        waiters = VisibilityWaiters(self.fail)
        late = Listener()
        waits: list[Wait] = []

        class Busy(Listener):
            def visible(self, end: int) -> None:
                waits[0].cancel()
                waiters.add(end + 1, late)

        waiters.add(1, Busy())
        never = Listener()
        waits.append(waiters.add(2, never))
        waiters.reached(3)
        self.assertEqual((never.calls, late.calls, len(waiters)), ([], [], 1))
        waiters.reached(4)
        self.assertEqual(late.calls, [4])

    def test_a_failure_reaches_every_listener(self) -> None:
        """Each listener gets the failure once, unless its wait was cancelled."""
        waiters = VisibilityWaiters(self.fail)
        listeners = [Listener() for _ in range(3)]
        waits = [waiters.add(1, listener) for listener in listeners]
        waits[1].cancel()
        error = OSError("gone")
        waiters.fail(error)
        waiters.fail(error)
        self.assertEqual([listener.calls for listener in listeners], [[error], [], [error]])

    def test_a_failing_listener_spares_the_others(self) -> None:
        """The error is reported, both for a visible end and for a failure."""

        class Broken(Listener):
            def visible(self, end: int) -> None:
                raise ValueError("visible")

            def failed(self, error: BaseException) -> None:
                raise ValueError("failed")

        reports: list[str] = []
        waiters = VisibilityWaiters(reports.append)
        listeners = [Listener(), Broken(), Listener(), Broken(), Listener()]
        for position, listener in zip((1, 1, 1, 5, 5), listeners, strict=True):
            waiters.add(position, listener)
        waiters.reached(3)
        error = OSError("gone")
        waiters.fail(error)
        self.assertEqual([listener.calls for listener in listeners], [[3], [], [3], [], [error]])
        self.assertEqual([text.splitlines()[-1] for text in reports], ["ValueError: visible", "ValueError: failed"])
