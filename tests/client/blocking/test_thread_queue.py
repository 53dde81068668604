"""Tests of logd.client.blocking.thread_queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.client.blocking.thread_queue import ThreadQueue


class ReactorCalls:
    """A reactor's thread that runs calls when the test says so."""

    running = True

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def callFromThread(self, call: Callable[[], object]) -> None:  # noqa: N802
        """Keep a call, as IReactorFromThreads would make it."""
        self.calls.append(call)

    def run(self) -> None:
        """Make the calls."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class ThreadQueueTests(SynchronousTestCase):
    """``ThreadQueue``."""

    def setUp(self) -> None:
        """Make a queue for two items."""
        self.reactor = ReactorCalls()
        self.thread_queue: ThreadQueue[Any] = ThreadQueue(self.reactor, 2)

    def test_items_are_handed_over_in_order(self) -> None:
        """The order of a partition's messages depends on it."""
        for item in "ab":
            self.thread_queue.put(item)
        self.assertEqual([self.thread_queue.get(0), self.thread_queue.get(0)], ["a", "b"])

    def test_a_full_queue_asks_to_wait(self) -> None:
        """The wait ends when half of it is taken, so that the threads do not alternate item by item."""
        self.assertIsNone(self.thread_queue.put("a"))
        room = self.thread_queue.put("b")
        assert room is not None
        self.thread_queue.get(0)
        self.assertNoResult(room)
        self.reactor.run()
        self.successResultOf(room)

    def test_an_empty_queue_times_out(self) -> None:
        """``get`` raises TimeoutError within its time."""
        self.assertRaises(TimeoutError, self.thread_queue.get, 0.001)

    def test_a_waiting_thread_gets_a_later_item(self) -> None:
        """The thread sleeps until then, and must be woken by the other one."""
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(self.thread_queue.get(10)))
        thread.start()
        self.thread_queue.put("x")
        thread.join(10)
        self.assertEqual(got, ["x"])

    def test_items_come_before_the_end(self) -> None:
        """After them ``get`` returns None, or raises the error each time."""
        self.thread_queue.put("a")
        self.thread_queue.end()
        self.assertEqual([self.thread_queue.get(), self.thread_queue.get()], ["a", None])
        self.thread_queue.end(ValueError("broken"))
        self.assertRaises(ValueError, self.thread_queue.get)
        self.assertRaises(ValueError, self.thread_queue.get)

    def test_dropped_items_are_not_handed_over(self) -> None:
        """Callers that wait for room may go on, and an error is forgotten: a seek begins anew."""
        self.thread_queue.put(1)
        room = self.thread_queue.put(2)
        assert room is not None
        self.thread_queue.end(ValueError())
        self.thread_queue.drop(lambda item: item == 1)
        self.successResultOf(room)
        self.assertEqual(self.thread_queue.get(0), 2)
        self.assertRaises(TimeoutError, self.thread_queue.get, 0.001)
