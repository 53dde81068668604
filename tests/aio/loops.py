"""Test cases that run a coroutine on an event loop of their own, and hear what the loop complains of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.trial.unittest import SynchronousTestCase

from logd.aio.consumer import AsyncioConsumer
from logd.aio.loop_clock import clock_of_running_loop
from logd.aio.producer import AsyncioProducer
from tests.client.doubles import ModelBroker

T = TypeVar("T")

#: Seconds after which a test that waits for nothing fails.
PATIENCE = 120.0


class LoopTestCase(SynchronousTestCase):
    """A coroutine on a loop, in debug mode; the loop's complaints fail the test."""

    def setUp(self) -> None:
        """Begin a list of complaints."""
        self.complaints: list[dict[str, Any]] = []

    def run_loop(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``main()`` by asyncio.run."""

        async def guarded() -> T:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: self.complaints.append(context))
            loop.slow_callback_duration = PATIENCE
            async with asyncio.timeout(PATIENCE):
                return await main()

        result = asyncio.run(guarded(), debug=True)
        self.assertEqual(self.complaints, [])
        return result


class ModelTestCase(LoopTestCase):
    """Clients of a broker in memory, on the loop's clock. ``begin`` makes it, within the loop."""

    def begin(self, topic: str = "t", partitions: int = 1) -> ModelBroker:
        """Make the broker, with a topic."""
        clock: Any = clock_of_running_loop()
        self.broker = ModelBroker(clock, delay=0.0)
        self.log = self.broker.add(topic, partitions)[0]
        return self.broker

    def producer(self, **settings: Any) -> AsyncioProducer:
        """Make a producer of the model."""
        return AsyncioProducer("model:1", connect=self.broker.connect, **settings)

    def consumer(self, **settings: Any) -> AsyncioConsumer:
        """Make a consumer of the model."""
        return AsyncioConsumer("model:1", connect=self.broker.connect, **settings)
