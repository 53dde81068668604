"""Tests of logd.deferreds.background."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.background import Background
from logd.deferreds.gathering import for_each, gather
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError


class BackgroundTests(SynchronousTestCase):
    """Coroutines of one second each, started in the background."""

    def setUp(self) -> None:
        """Begin with nothing in the background."""
        self.clock = Clock()
        self.background = Background("a test")
        self.ended: list[int] = []

    async def work(self, number: int) -> None:
        """Take a second, whatever happens."""
        try:
            await sleep(self.clock, 1.0)
        finally:
            self.ended.append(number)

    def test_coroutines_run_side_by_side_and_are_forgotten(self) -> None:
        """The Deferred of each fires when it ends, and nothing of it is kept."""
        running = [self.background.start(self.work(number)) for number in range(2)]
        self.assertEqual(len(self.background), 2)
        self.clock.advance(1.0)
        self.assertEqual([self.successResultOf(each) for each in running], [None, None])
        self.assertEqual((self.ended, len(self.background)), ([0, 1], 0))

    def test_a_stop_cancels_what_runs_and_leaves_no_timer(self) -> None:
        """Others may be started afterwards."""
        running = self.background.start(self.work(0))
        self.background.stop()
        self.successResultOf(running)
        self.assertEqual((self.ended, self.clock.getDelayedCalls(), len(self.background)), ([0], [], 0))
        self.background.start(self.work(1))
        self.clock.advance(1.0)
        self.assertEqual(self.ended, [0, 1])

    def test_a_coroutine_can_tell_that_it_is_stopped(self) -> None:
        """A cancellation that it handles may have another reason."""
        background = Background("a test")
        self.assertFalse(background.was_stopped)
        background.stop()
        self.assertTrue(background.was_stopped)

    def test_cancelling_one_coroutine_leaves_the_others_running(self) -> None:
        """The one that is cancelled ends at once, and only that one."""
        first = self.background.start(self.work(0))
        self.background.start(self.work(1))
        first.cancel()
        self.successResultOf(first)
        self.assertEqual((self.ended, len(self.background)), ([0], 1))

    def test_an_exception_in_a_coroutine_is_logged(self) -> None:
        """It may come at once or later, and stops no other coroutine."""

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

    def test_a_coroutine_can_stop_everything_and_itself(self) -> None:
        """It ends where it next waits, and the rest with it."""

        async def stops() -> None:
            await sleep(self.clock, 0.5)
            self.background.stop()

        self.background.start(self.work(0))
        self.background.start(stops())
        self.clock.advance(0.5)
        self.assertEqual((self.ended, len(self.background)), ([0], 0))

    def test_a_coroutine_that_stops_everything_does_not_go_on(self) -> None:
        """It ends where it next waits, in its first step or later, and may still tidy up."""

        async def stops(seconds: float | None, number: int) -> None:
            if seconds is not None:
                await sleep(self.clock, seconds)
            self.background.stop()
            try:
                await self.work(number)
                self.ended.append(-1)
            finally:
                await sleep(self.clock, 0.25)
                self.ended.append(10 + number)

        self.background.start(stops(None, 0))
        self.assertEqual(self.ended, [0])
        self.clock.advance(0.25)
        self.assertEqual((self.ended, len(self.background)), ([0, 10], 0))
        self.background.start(stops(0.5, 1))
        self.clock.advance(0.5)
        self.assertEqual(self.ended, [0, 10, 1])
        self.clock.advance(0.25)
        self.assertEqual((self.ended, self.clock.getDelayedCalls(), len(self.background)), ([0, 10, 1, 11], [], 0))

    def test_a_stop_by_what_a_coroutine_waits_for(self) -> None:
        """That runs at this moment and cannot be cancelled, so the coroutine ends where it next waits."""
        gate: Deferred[None] = Deferred()

        async def commit() -> None:
            await gate
            self.background.stop()  # as by a lock's release, which another one waits for that stops everything

        async def commits() -> None:
            try:
                while True:
                    await Deferred.fromCoroutine(commit())
                    await sleep(self.clock, 1.0)
            finally:
                self.ended.append(0)

        running = self.background.start(commits())
        gate.callback(None)
        self.assertIsNone(self.successResultOf(running))
        self.assertEqual((self.ended, len(self.background), self.clock.getDelayedCalls()), ([0], 0, []))

    def test_a_stop_in_a_wait_for_several_leaves_time_to_tidy_up(self) -> None:
        """As in any other wait, since the cancellation ends that one wait."""

        async def waits(several: Awaitable[object], number: int) -> None:
            try:
                await several
            finally:
                await sleep(self.clock, 0.25)
                self.ended.append(number)

        self.background.start(waits(gather([self.work(0), self.work(1)]), 10))
        self.background.start(waits(for_each([2, 3], self.work, 2), 11))
        self.background.stop()
        self.assertEqual(self.ended, [0, 1, 2, 3])
        self.clock.advance(0.25)
        self.assertEqual((self.ended[4:], len(self.background)), ([10, 11], 0))

    def test_a_stop_that_another_error_answers(self) -> None:
        """A wait that makes an error of its own of the cancellation ends its coroutine where that next waits."""

        async def asks() -> None:
            try:
                await self.work(0)
            except CancelledError:
                raise LogdError("the tree does not answer") from None

        async def asks_again() -> None:
            while True:
                try:
                    await Deferred.fromCoroutine(asks())
                except LogdError:
                    await self.work(1)

        running = self.background.start(asks_again())
        self.background.stop()
        self.assertIsNone(self.successResultOf(running))
        self.assertEqual((self.ended, len(self.background), self.clock.getDelayedCalls()), ([0, 1], 0, []))

    def test_a_result_does_not_stay_in_memory(self) -> None:
        """A result that a coroutine has dropped is gone while it waits for the next one."""
        result: Deferred[Background] = Deferred()

        async def drops() -> None:
            await result
            await self.work(1)

        self.background.start(drops())
        value = Background("nothing")
        seen = weakref.ref(value)
        result.callback(value)
        del value
        self.assertEqual(len(self.background), 1)
        self.assertIsNone(seen())
