"""Tests of logd.aio.loop_clock: timers, calls from threads, and the end of clients with their loop."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

from logd.aio.loop_clock import LoopClock, clock_of_running_loop
from tests.aio.loops import LoopTestCase, ModelTestCase

_request: ContextVar[str] = ContextVar("_request", default="none")


class TimerTests(LoopTestCase):
    """``callLater``, ``callFromThread``."""

    def test_timers_call_in_order_and_never_early(self) -> None:
        """A timer is active until its call begins."""

        async def main() -> None:
            clock, done = clock_of_running_loop(), asyncio.Event()
            begun, called = clock.seconds(), list[tuple[str, bool]]()

            def end() -> None:
                called.append(("b", second.active()))
                done.set()

            second = clock.callLater(0.02, end)
            clock.callLater(0.01, lambda: called.append(("a", clock.seconds() - begun >= 0.01)))
            await done.wait()
            self.assertEqual(called, [("a", True), ("b", False)])

        self.run_loop(main)

    def test_a_loop_that_calls_early_is_asked_again(self) -> None:
        """uvloop rounds delays to milliseconds; a deadline that has not come yet must not look as if it had."""

        now = 7.0
        self.patch(LoopClock, "seconds", lambda _: now)

        async def main() -> None:
            nonlocal now
            clock, done = clock_of_running_loop(), asyncio.Event()
            timer = clock.callLater(0.005, done.set)
            await asyncio.sleep(0.01)  # the loop has called, and was asked again, perhaps more than once
            timer._fire()
            self.assertFalse(done.is_set())
            self.assertTrue(timer.active())
            now += 0.005
            await done.wait()
            self.assertFalse(timer.active())

        self.run_loop(main)

    def test_a_cancelled_timer_makes_no_call(self) -> None:
        """It is not active any more."""

        async def main() -> None:
            clock, done = clock_of_running_loop(), asyncio.Event()
            timer = clock.callLater(0, self.fail, "called")
            timer.cancel()
            self.assertFalse(timer.active())
            clock.callLater(0, done.set)
            await done.wait()

        self.run_loop(main)

    def test_calls_run_outside_of_the_context_of_the_task(self) -> None:
        """A connection outlives the request that opened it, whose variables would appear in the log of others."""

        async def main() -> str:
            _request.set("first")
            found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            clock_of_running_loop().callLater(0, lambda: found.set_result(_request.get()))
            return await found

        self.assertEqual(self.run_loop(main), "none")

    def test_calls_from_threads_run_in_the_loop_in_order(self) -> None:
        """A thread that comes after the end of the loop is not disturbed by it."""
        clocks: list[LoopClock] = []

        async def main() -> list[int]:
            clock, done, called = clock_of_running_loop(), asyncio.Event(), list[int]()
            clocks.append(clock)

            def work() -> None:
                for number in range(100):
                    clock.callFromThread(called.append, number)
                clock.callFromThread(done.set)

            thread = threading.Thread(target=work)
            thread.start()
            await done.wait()
            thread.join()
            return called

        self.assertEqual(self.run_loop(main), list(range(100)))
        clocks[0].callFromThread(self.fail, "called")

    def test_clients_of_one_loop_share_its_clock(self) -> None:
        """Another loop has another one."""

        async def main() -> tuple[LoopClock, LoopClock]:
            return clock_of_running_loop(), clock_of_running_loop()

        first, same = self.run_loop(main)
        other, _ = self.run_loop(main)
        self.assertIs(first, same)
        self.assertIsNot(first, other)


class EndTests(ModelTestCase):
    """The end of a loop with clients that are still open."""

    def test_clients_left_open_are_closed_with_their_loop(self) -> None:
        """Their connections end, and the consumer's stream with them."""

        async def main() -> object:
            self.begin()
            producer = self.producer()
            await producer.send("t", b"a")
            consumer = self.consumer()
            stream = consumer.stream("t")
            await stream.get()
            self.assertNotIn(True, [connection.closed for connection in self.broker.connections])
            return producer, consumer, stream

        kept = self.run_loop(main)
        self.assertNotIn(False, [connection.closed for connection in self.broker.connections])
        del kept

    def test_closed_clients_are_forgotten(self) -> None:
        """The loop's end neither closes them again nor complains of them."""

        async def main() -> None:
            self.begin()
            async with self.producer() as producer, self.consumer() as consumer:
                self.assertEqual(len(clock_of_running_loop()._clients), 2)
            self.assertEqual(len(clock_of_running_loop()._clients), 0)
            del producer, consumer

        self.run_loop(main)
