"""Tests of logd.deferreds.background."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep


class BackgroundTests(SynchronousTestCase):
    """Background."""

    def setUp(self) -> None:
        """Nothing runs."""
        self.clock = Clock()
        self.background = Background("a test")
        self.ended: list[int] = []

    async def work(self, number: int) -> None:
        """Take a second, whatever happens."""
        try:
            await sleep(self.clock, 1.0)
        finally:
            self.ended.append(number)

    def test_runs_and_ends(self) -> None:
        """Coroutines run side by side; each tells of its end, and is then forgotten."""
        running = [self.background.start(self.work(number)) for number in range(2)]
        self.assertEqual(len(self.background), 2)
        self.clock.advance(1.0)
        self.assertEqual([self.successResultOf(each) for each in running], [None, None])
        self.assertEqual((self.ended, len(self.background)), ([0, 1], 0))

    def test_stop(self) -> None:
        """A stop cancels what runs, with its timers; others may be started afterwards."""
        running = self.background.start(self.work(0))
        self.background.stop()
        self.successResultOf(running)
        self.assertEqual((self.ended, self.clock.getDelayedCalls(), len(self.background)), ([0], [], 0))
        self.background.start(self.work(1))
        self.clock.advance(1.0)
        self.assertEqual(self.ended, [0, 1])

    def test_one_cancelled(self) -> None:
        """A single coroutine can be cancelled; the others go on."""
        first = self.background.start(self.work(0))
        self.background.start(self.work(1))
        first.cancel()
        self.successResultOf(first)
        self.assertEqual((self.ended, len(self.background)), ([0], 1))

    def test_bugs_are_logged(self) -> None:
        """An exception is logged, whether it comes at once or later, and stops no other coroutine."""

        async def broken(wait: Deferred[None] | None) -> None:
            if wait is not None:
                await wait
            raise ZeroDivisionError

        self.background.start(self.work(0))
        self.successResultOf(self.background.start(broken(None)))
        later: Deferred[None] = Deferred()
        running = self.background.start(broken(later))
        later.callback(None)
        self.successResultOf(running)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual(len(self.background), 1)

    def test_stopped_by_one_of_its_own(self) -> None:
        """A coroutine that stops everything ends where it next waits, and with it the rest."""

        async def stops() -> None:
            await sleep(self.clock, 0.5)
            self.background.stop()

        self.background.start(self.work(0))
        self.background.start(stops())
        self.clock.advance(0.5)
        self.assertEqual((self.ended, len(self.background)), ([0], 0))
