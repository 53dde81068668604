"""Tests of logd.aio.futures: results, errors and cancellations between Deferreds and tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.aio.futures import drive, future_for
from logd.errors import StorageFull
from tests.aio.loops import LoopTestCase


class FutureTests(LoopTestCase):
    """``future_for``."""

    def test_the_result_of_a_deferred_becomes_that_of_the_future(self) -> None:
        """A Deferred that has fired before counts too."""

        async def main() -> tuple[int, int]:
            loop = asyncio.get_running_loop()
            later: Deferred[int] = Deferred()
            loop.call_soon(later.callback, 2)
            return await future_for(loop, defer.succeed(1)), await future_for(loop, later)

        self.assertEqual(self.run_loop(main), (1, 2))

    def test_an_error_keeps_its_class(self) -> None:
        """The very exception that the Deferred failed with is raised."""
        error = StorageFull("no room")

        async def main() -> None:
            await future_for(asyncio.get_running_loop(), defer.fail(error))

        self.assertIs(self.assertRaises(StorageFull, self.run_loop, main), error)

    def test_an_error_that_no_future_takes_is_told_in_another_one(self) -> None:
        """It may come from a function of the application; the task would wait for ever."""

        async def main() -> None:
            await asyncio.wait_for(future_for(asyncio.get_running_loop(), defer.fail(StopIteration())), 1.0)

        self.assertIn("StopIteration", str(self.assertRaises(RuntimeError, self.run_loop, main)))

    def test_cancelling_the_task_cancels_the_deferred_at_once(self) -> None:
        """The Deferred's canceller runs before ``cancel`` returns, so nothing fires it in between."""
        cancelled: list[Deferred[None]] = []

        async def main() -> None:
            waiting: Deferred[None] = Deferred(cancelled.append)

            async def wait() -> None:
                await future_for(asyncio.get_running_loop(), waiting)

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            self.assertEqual(cancelled, [waiting])
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.run_loop(main)

    def test_a_cancelled_deferred_cancels_the_future(self) -> None:
        """Twisted's CancelledError, which is no asyncio.CancelledError, does not reach the task."""

        async def main() -> None:
            waiting: Deferred[None] = Deferred()
            future = future_for(asyncio.get_running_loop(), waiting)
            waiting.cancel()
            self.assertTrue(future.cancelled())

        self.run_loop(main)

    def test_a_finished_future_does_not_cancel(self) -> None:
        """It has its result, and the Deferred another owner by now."""

        async def main() -> None:
            waiting: Deferred[int] = Deferred(lambda _: self.fail("cancelled"))
            future = future_for(asyncio.get_running_loop(), waiting)
            waiting.callback(3)
            self.assertFalse(future.cancel())
            self.assertEqual(await future, 3)

        self.run_loop(main)


class DriveTests(LoopTestCase):
    """``drive``."""

    def test_a_coroutine_over_deferreds_runs_in_the_task(self) -> None:
        """Results and errors of Deferreds go into it, and its own result comes out."""

        async def work() -> str:
            try:
                await defer.fail(StorageFull("no room"))
            except StorageFull:
                later: Deferred[str] = Deferred()
                asyncio.get_running_loop().call_soon(later.callback, "done")
                return await later
            raise AssertionError("no error")

        async def main() -> str:
            return await drive(asyncio.get_running_loop(), work())

        self.assertEqual(self.run_loop(main), "done")

    def test_an_error_of_the_coroutine_is_raised(self) -> None:
        """It keeps its class."""

        async def work() -> None:
            raise StorageFull("no room")

        async def main() -> None:
            await drive(asyncio.get_running_loop(), work())

        self.assertRaises(StorageFull, self.run_loop, main)

    def test_a_cancellation_reaches_the_coroutine_and_its_deferred(self) -> None:
        """The coroutine cleans up as under Twisted, and the task ends with asyncio's CancelledError."""
        seen: list[str] = []

        async def work() -> None:
            try:
                await Deferred(lambda _: seen.append("deferred"))
            except defer.CancelledError:
                seen.append("coroutine")
                raise

        async def main() -> None:
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0):
                    await drive(asyncio.get_running_loop(), work())

        self.run_loop(main)
        self.assertEqual(seen, ["deferred", "coroutine"])

    def test_a_coroutine_that_passes_over_the_cancellation_ends_it_no_less(self) -> None:
        """The task is cancelled, whatever the coroutine returns, once that has returned."""
        finished: list[bool] = []

        async def work() -> int:
            try:
                await Deferred()
            except defer.CancelledError:
                pause: Deferred[None] = Deferred()
                asyncio.get_running_loop().call_soon(pause.callback, None)
                await pause
                finished.append(True)
            return 1

        async def main() -> None:
            task = asyncio.create_task(drive(asyncio.get_running_loop(), work()))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.run_loop(main)
        self.assertEqual(finished, [True])

    def test_nothing_is_taken_when_a_cancellation_comes_with_the_result(self) -> None:
        """A Deferred fires and its task is cancelled in one turn of the loop: the item stays where it was."""
        items = ["first"]

        async def main() -> None:
            arrived: Deferred[None] = Deferred()

            async def take() -> str:
                await arrived
                return items.pop()

            task = asyncio.create_task(drive(asyncio.get_running_loop(), take()))
            await asyncio.sleep(0)
            arrived.callback(None)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.run_loop(main)
        self.assertEqual(items, ["first"])

    def test_the_items_of_an_asynchronous_generator_are_driven_one_by_one(self) -> None:
        """``anext`` gives an awaitable that is no coroutine."""

        async def count() -> AsyncIterator[int]:
            for number in range(3):
                pause: Deferred[None] = Deferred()
                asyncio.get_running_loop().call_soon(pause.callback, None)
                await pause
                yield number

        async def main() -> list[int | None]:
            loop, numbers = asyncio.get_running_loop(), count()
            return [await drive(loop, anext(numbers, None)) for _ in range(4)]

        self.assertEqual(self.run_loop(main), [0, 1, 2, None])
