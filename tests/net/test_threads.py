"""Tests of logd.net.threads: threads that wait for disks."""

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
    """Fire a Deferred with the error of a work, or None."""
    ended.callback(error)


class DiskThreadsTests(TestCase):
    """Real threads under the real reactor."""

    def setUp(self) -> None:
        """Start one thread, so that works have an order."""
        net: Any = reactor
        self.threads = DiskThreads(net, 1, "test")
        self.threads.start()
        self.running = True
        self.addCleanup(self.stop)

    def stop(self) -> None:
        """Stop the threads, once."""
        if self.running:
            self.running = False
            self.threads.stop()

    def run_work(self, work: Callable[[], Any]) -> Deferred[Any]:
        """Run a work; the Deferred fires with its result and the thread on which that was told."""
        outcome: Deferred[Any] = Deferred()

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                outcome.callback((result, threading.current_thread()))
            else:
                outcome.errback(error)

        self.threads.run(work, done)
        self.assertFalse(outcome.called, "done came before run had returned")
        return outcome

    def test_a_thread_that_has_ended_is_told(self) -> None:
        """Until the threads are ended on purpose, a thread that is gone counts as lost."""
        self.assertEqual(self.threads.lost, 0)
        (thread,) = self.threads._pool.threads
        self.threads._pool.stopAWorker()
        thread.join(10)
        self.assertEqual(self.threads.lost, 1)
        self.stop()
        self.assertEqual(self.threads.lost, 0)

    def test_the_threads_provide_ithreads(self) -> None:
        """The log knows them by that interface alone."""
        verifyObject(IThreads, self.threads)

    async def test_a_result_comes_on_the_reactors_thread(self) -> None:
        """The work itself runs on another one."""
        worked, told_on = await self.run_work(threading.current_thread)
        self.assertIsNot(worked, threading.current_thread())
        self.assertIs(told_on, threading.current_thread())

    async def test_an_error_reaches_the_caller(self) -> None:
        """The caller gets the very exception, and the thread takes the next work."""

        def fail() -> None:
            raise OSError(5, "Input/output error")

        with self.assertRaises(OSError) as caught:
            await self.run_work(fail)
        self.assertEqual(caught.exception.errno, 5)
        self.assertEqual((await self.run_work(lambda: 7))[0], 7)

    async def test_works_begin_in_their_order(self) -> None:
        """A thread takes the oldest first."""
        order: list[int] = []
        works = [self.run_work(lambda number=number: order.append(number)) for number in range(100)]  # type: ignore[misc]
        for work in works:
            await work
        self.assertEqual(order, list(range(100)))

    async def test_stopping_waits_for_the_work(self) -> None:
        """The files of a work would be closed under it otherwise."""
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

    async def test_all_threads_exist_after_the_start(self) -> None:
        """Later the system may not let another one start."""
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

    def test_too_many_threads_fail_the_start(self) -> None:
        """The error names the pool, and no thread of it stays behind."""
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
