"""Tests of logd.bench.rates.patience."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.bench.rates.patience import within
from logd.errors import LogdError


class WithinTests(SynchronousTestCase):
    """Waiting that says what it waited for."""

    def test_a_result_or_a_failure_in_time_is_handed_on(self) -> None:
        """Of a Deferred, and of a coroutine; no timer is left."""
        clock = Clock()

        async def work(waiting: Deferred[int]) -> int:
            return await waiting

        for make in (lambda waiting: waiting, work):
            waiting: Deferred[int] = Deferred()
            doing = Deferred.fromCoroutine(within(clock, 1.0, "the work", make(waiting)))
            self.assertNoResult(doing)
            waiting.callback(7)
            self.assertEqual(self.successResultOf(doing), 7)
            failing = Deferred.fromCoroutine(within(clock, 1.0, "the work", make(fail(KeyError("k")))))
            self.failureResultOf(failing, KeyError)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_what_is_late_is_cancelled_and_named(self) -> None:
        """Whatever the Deferred does about its cancellation."""
        clock = Clock()
        cancelled: list[object] = []
        never: Deferred[int] = Deferred(cancelled.append)
        doing = Deferred.fromCoroutine(within(clock, 2.0, "opening the door", never))
        clock.advance(2.0)
        error = self.failureResultOf(doing, LogdError).value
        self.assertEqual((str(error), len(cancelled)), ("opening the door: not done after 2 s", 1))
