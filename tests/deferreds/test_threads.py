"""Tests of logd.deferreds.threads."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.threads import on_thread
from logd.testing.memory.clock_threads import ClockThreads


class OnThreadTests(SynchronousTestCase):
    """A Deferred for work on a thread."""

    def test_the_result_and_the_error_come_back(self) -> None:
        """As they are, None included."""
        clock = Clock()
        threads = ClockThreads(clock, lambda: 1.0)

        def fail() -> None:
            raise OSError("the disk")

        results = [on_thread(threads, work) for work in (lambda: 5, lambda: None)]
        failing = on_thread(threads, fail)
        clock.pump([1.0] * 5)
        self.assertEqual([self.successResultOf(each) for each in results], [5, None])
        self.failureResultOf(failing).trap(OSError)

    def test_cancelling_ends_the_wait_alone(self) -> None:
        """The outcome of the work is dropped when it comes."""
        clock, done = Clock(), list[int]()
        waiting = on_thread(ClockThreads(clock, lambda: 1.0), lambda: done.append(1))
        waiting.addErrback(lambda failure: None)
        waiting.cancel()
        clock.pump([1.0] * 3)
        self.assertEqual(done, [1])
