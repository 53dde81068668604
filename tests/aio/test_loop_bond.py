"""Tests of logd.aio.loop_bond: clients that are made or used outside of their event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from logd.aio.admin import AsyncioAdmin
from logd.aio.consumer import AsyncioConsumer
from logd.aio.producer import AsyncioProducer
from logd.errors import (
    ConfigurationError,
)
from tests.aio.loops import ModelTestCase


class LoopErrorTests(ModelTestCase):
    """The errors for a client that is used outside its loop."""

    def test_a_client_needs_a_running_loop(self) -> None:
        """At the top of a module there is none yet."""
        for make in (AsyncioProducer, AsyncioConsumer, AsyncioAdmin):
            self.assertIn("create the ", str(self.assertRaises(RuntimeError, make, "model:1")))

    def test_settings_and_addresses_are_checked_when_the_client_is_made(self) -> None:
        """Not at the first send, which may be hours later."""

        async def main() -> None:
            wrong: list[tuple[str, dict[str, Any]]] = [
                ("a:1", {"linger": -1}),
                ("a:1", {"ack": 1}),
                ("unix:/run/logd", {}),
                ("a:1,", {"connect_timeout": -1}),
                ("tls:a:1:trustRoots=/nowhere", {}),
            ]
            for brokers, settings in wrong:
                with self.assertRaises(ConfigurationError, msg=f"{brokers} {settings}"):
                    AsyncioProducer(brokers, **settings)

        self.run_loop(main)

    def test_a_client_of_a_loop_that_has_ended_says_so(self) -> None:
        """A second asyncio.run needs a client of its own."""

        async def make() -> AsyncioProducer:
            self.begin()
            async with self.producer() as producer:
                await producer.send("t", b"a")
            return producer

        async def use() -> None:
            with self.assertRaisesRegex(RuntimeError, "the event loop of this Producer has ended"):
                await producer.send("t", b"b")

        producer = self.run_loop(make)
        self.run_loop(use)
        self.assertIn("has ended", str(self.assertRaises(RuntimeError, producer.send, "t", b"c")))

    def test_a_call_from_another_thread_is_refused(self) -> None:
        """It would run in the midst of the loop's own work; web frameworks run some functions in threads."""
        errors: list[BaseException] = []

        async def main() -> None:
            self.begin()
            async with self.producer() as producer:

                def work() -> None:
                    try:
                        producer.publish("t", b"a")
                    except RuntimeError as error:
                        errors.append(error)

                thread = threading.Thread(target=work)
                thread.start()
                await asyncio.to_thread(thread.join)

        self.run_loop(main)
        self.assertIn("call_soon_threadsafe", str(errors[0]))
