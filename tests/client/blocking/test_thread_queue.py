"""Tests of logd.client.blocking.thread_queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.client.blocking.thread_queue import ThreadQueue


class Calls:
    """Stands for the reactor: keeps what is to be called on its thread."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def callFromThread(self, call: Callable[[], object]) -> None:  # noqa: N802
        """As IReactorFromThreads."""
        self.calls.append(call)

    def run(self) -> None:
        """Call them."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class CrossingTests(SynchronousTestCase):
    """ThreadQueue."""

    def setUp(self) -> None:
        """A way for two items."""
        self.reactor = Calls()
        self.thread_queue: ThreadQueue[Any] = ThreadQueue(self.reactor, 2)

    def test_hands_over_in_order(self) -> None:
        """What is put first is got first."""
        for item in "ab":
            self.thread_queue.put(item)
        self.assertEqual([self.thread_queue.get(0), self.thread_queue.get(0)], ["a", "b"])

    def test_is_bounded(self) -> None:
        """At the limit put asks to wait, until half of it is taken."""
        self.assertIsNone(self.thread_queue.put("a"))
        room = self.thread_queue.put("b")
        assert room is not None
        self.thread_queue.get(0)
        self.assertNoResult(room)
        self.reactor.run()
        self.successResultOf(room)

    def test_timeout(self) -> None:
        """Nothing within the time is a TimeoutError."""
        self.assertRaises(TimeoutError, self.thread_queue.get, 0.001)

    def test_wakes_the_other_thread(self) -> None:
        """Who waits gets what is put later."""
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(self.thread_queue.get(10)))
        thread.start()
        self.thread_queue.put("x")
        thread.join(10)
        self.assertEqual(got, ["x"])

    def test_ends(self) -> None:
        """After the end what is left is handed over, then None; or the error, each time."""
        self.thread_queue.put("a")
        self.thread_queue.end()
        self.assertEqual([self.thread_queue.get(), self.thread_queue.get()], ["a", None])
        self.thread_queue.end(ValueError("broken"))
        self.assertRaises(ValueError, self.thread_queue.get)
        self.assertRaises(ValueError, self.thread_queue.get)

    def test_drop(self) -> None:
        """What is dropped is not handed over, who waits for room may go on, and an error is forgotten."""
        self.thread_queue.put(1)
        room = self.thread_queue.put(2)
        assert room is not None
        self.thread_queue.end(ValueError())
        self.thread_queue.drop(lambda item: item == 1)
        self.successResultOf(room)
        self.assertEqual(self.thread_queue.get(0), 2)
        self.assertRaises(TimeoutError, self.thread_queue.get, 0.001)
