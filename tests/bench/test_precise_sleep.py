"""Tests of logd.bench.precise_sleep."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from logd.bench.precise_sleep import AWAKE_SECONDS, PreciseSleep


class PreciseSleepTests(TestCase):
    """Sleeps in the real reactor."""

    async def test_it_ends_when_the_time_has_come(self) -> None:
        """Never before, again and again, and also where the time is over already."""
        from twisted.internet import reactor

        sleep = PreciseSleep(reactor)
        self.addCleanup(sleep.close)
        for wait in (0.0005, 0.002, 0.01, 0.0005, 0.0, -1.0):
            due = time.perf_counter() + wait
            await sleep.until(due)
            self.assertGreaterEqual(time.perf_counter(), due - 1e-6)


class OtherSystemsTests(SynchronousTestCase):
    """Systems whose library has no such timers."""

    def test_the_sleep_ends_early(self) -> None:
        """The caller stays awake for the rest."""
        clock = Clock()
        reactor: Any = MemoryReactorClock()
        reactor.callLater = clock.callLater
        sleep = PreciseSleep(reactor)
        sleep.close()
        ended = sleep.until(time.perf_counter() + 500.0)
        (call,) = clock.getDelayedCalls()
        self.assertTrue(400.0 < call.getTime() <= 500.0 - AWAKE_SECONDS)
        clock.advance(500.0)
        self.successResultOf(ended)
