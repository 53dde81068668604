"""Tests of the queue from kazoo's thread to the reactor's, and of the wakeup the other way."""

from __future__ import annotations

import select
from functools import partial
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.zookeeper.reactor_queue import ReactorQueue, ThreadReactor
from logd.coord.zookeeper.wakeup import Wakeup
from tests.coord.zookeeper.doubles import Turns


class ReactorQueueTests(SynchronousTestCase):
    """The order in which queued calls run."""

    def setUp(self) -> None:
        """Make a queue on a reactor whose turns the test makes."""
        self.turns = Turns()
        self.queue = ReactorQueue(cast(ThreadReactor, self.turns))
        self.done: list[str] = []

    def test_calls_run_in_order_and_in_a_later_turn(self) -> None:
        """None of them runs inside put."""
        for name in "abc":
            self.queue.put(partial(self.done.append, name))
        self.assertEqual(self.done, [])
        self.turns.turn()
        self.assertEqual(self.done, ["a", "b", "c"])

    def test_a_call_put_by_a_call_runs_next(self) -> None:
        """It belongs to the same answer, so it passes calls that were put earlier."""
        self.queue.put(lambda: self.queue.put(lambda: self.done.append("create")))
        self.queue.put(lambda: self.done.append("get"))
        self.turns.turn()
        self.assertEqual(self.done, ["create", "get"])

    def test_a_sender_inside_an_answer_is_answered_afterwards(self) -> None:
        """The answer waits until the sender is done."""

        def answer() -> None:
            with self.queue.later():
                self.queue.put(lambda: self.done.append("answered"))
            self.done.append("sent")

        self.queue.put(answer)
        self.turns.turn()
        self.turns.turn()
        self.assertEqual(self.done, ["sent", "answered"])

    def test_a_call_that_raises_leaves_the_queue_in_order(self) -> None:
        """The next call does not run inside put."""

        def fail() -> None:
            raise ValueError

        self.queue.put(fail)
        self.assertRaises(ValueError, self.turns.turn)
        self.queue.put(lambda: self.done.append("a"))
        self.assertEqual(self.done, [])


class WakeupTests(SynchronousTestCase):
    """The wakeup of kazoo's thread, which counts."""

    def setUp(self) -> None:
        """Make a wakeup."""
        self.wakeup = Wakeup()
        self.addCleanup(self.wakeup.close)

    def readable(self) -> bool:
        """Return True if a select would wake."""
        return bool(select.select([self.wakeup.waiting], [], [], 0)[0])

    def test_the_wakeup_is_readable_while_something_waits(self) -> None:
        """It is woken twice here, and readable until both are taken."""
        self.assertFalse(self.readable())
        self.wakeup.waker.send(b"\0")
        self.wakeup.waker.send(b"\0")
        self.wakeup.waiting.recv(1)
        self.assertTrue(self.readable())
        self.wakeup.waiting.recv(1)
        self.assertFalse(self.readable())
        self.assertRaises(BlockingIOError, self.wakeup.waiting.recv, 1)

    def test_a_hundred_thousand_wakeups_do_not_block(self) -> None:
        """So many bytes in a socket that is not read would."""
        for _ in range(100_000):
            self.wakeup.waker.send(b"\0")
        self.assertTrue(self.readable())
