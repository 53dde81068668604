"""Tests of the threads that wait for disks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from logd.errors import ConfigurationError
from logd.interfaces import IThreads
from logd.net.threads import DiskThreads


def _tell(ended: Deferred[Any], _: object, error: BaseException | None) -> None:
    """Fire with what a work has raised."""
    ended.callback(error)


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

    async def test_all_are_there(self) -> None:
        """After the start no thread has to be made for a work, when perhaps none can be."""
        net: Any = reactor
        threads = DiskThreads(net, 3, "test")
        threads.start()
        self.addCleanup(threads.stop)

        def cannot(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        self.patch(threading.Thread, "start", cannot)
        together = threading.Barrier(3)
        ended: list[Deferred[Any]] = []
        for _ in range(3):
            ended.append(Deferred())
            threads.run(lambda: together.wait(30), partial(_tell, ended[-1]))
        for each in ended:
            self.assertEqual(await each, None)

    def test_too_many(self) -> None:
        """Threads that the system does not let start are told at the start, with where to look."""
        net: Any = reactor
        begin = threading.Thread.start
        left = [2]

        def limited(thread: threading.Thread) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("can't start new thread")
            begin(thread)

        threads = DiskThreads(net, 3, "logd-test")
        self.patch(threading.Thread, "start", limited)
        error = self.assertRaises(ConfigurationError, threads.start)
        self.assertIn("3 threads of logd-test: can't start new thread", str(error))
        self.assertEqual([each for each in threading.enumerate() if each.name.startswith("PoolThread-logd-test")], [])
