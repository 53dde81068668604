"""Tests of logd.aio.group_stream: listeners that are coroutine functions."""

from __future__ import annotations

import asyncio

from twisted.internet import defer

from logd.aio.futures import future_for
from logd.aio.group_stream import listener_of
from logd.aio.loop_clock import clock_of_running_loop
from logd.deferreds.timeouts import with_timeout
from tests.aio.loops import PATIENCE, LoopTestCase


class ListenerTests(LoopTestCase):
    """``listener_of``."""

    def test_a_coroutine_that_takes_too_long_is_a_timeout(self) -> None:
        """The consumer warns of it; an error of the listener would be logged with its traceback."""
        ended = []

        async def main() -> None:
            loop = asyncio.get_running_loop()

            async def never(_: object) -> None:
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    ended.append(True)

            listener = listener_of(loop, never)
            assert listener is not None
            telling = with_timeout(clock_of_running_loop(), 0.01, listener(()))
            with self.assertRaises(defer.TimeoutError):
                await future_for(loop, telling)

        self.run_loop(main)
        self.assertEqual(ended, [True])
