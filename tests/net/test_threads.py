"""Tests of the threads that wait for disks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IThreads
from logd.net.threads import DiskThreads


class DiskThreadsTests(TestCase):
    """Real threads under the real reactor."""

    def setUp(self) -> None:
        """One thread, so that the order of works can be told."""
        net: Any = reactor
        self.threads = DiskThreads(net, 1, "test")
        self.threads.start()
        self.running = True
        self.addCleanup(self.stop)

    def stop(self) -> None:
        """End the threads, once."""
        if self.running:
            self.running = False
            self.threads.stop()

    def run_work(self, work: Callable[[], Any]) -> Deferred[Any]:
        """A Deferred for what a work comes to."""
        outcome: Deferred[Any] = Deferred()

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                outcome.callback((result, threading.current_thread()))
            else:
                outcome.errback(error)

        self.threads.run(work, done)
        self.assertFalse(outcome.called, "done came before run had returned")
        return outcome

    def test_interface(self) -> None:
        """They are IThreads."""
        verifyObject(IThreads, self.threads)

    async def test_result(self) -> None:
        """A work runs on another thread, its outcome comes on the reactor's."""
        worked, told_on = await self.run_work(threading.current_thread)
        self.assertIsNot(worked, threading.current_thread())
        self.assertIs(told_on, threading.current_thread())

    async def test_error(self) -> None:
        """What a work raises is its outcome, the very exception, and the thread goes on."""

        def fail() -> None:
            raise OSError(5, "Input/output error")

        with self.assertRaises(OSError) as caught:
            await self.run_work(fail)
        self.assertEqual(caught.exception.errno, 5)
        self.assertEqual((await self.run_work(lambda: 7))[0], 7)

    async def test_order(self) -> None:
        """Works begin in the order in which they were given."""
        order: list[int] = []
        works = [self.run_work(lambda number=number: order.append(number)) for number in range(100)]  # type: ignore[misc]
        for work in works:
            await work
        self.assertEqual(order, list(range(100)))

    async def test_stop(self) -> None:
        """Stopping waits for the work that is under way."""
        begun, released, ended = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            released.wait()
            ended.set()

        outcome = self.run_work(work)
        begun.wait()
        threading.Thread(target=released.set).start()
        self.stop()
        self.assertTrue(ended.is_set())
        await outcome
