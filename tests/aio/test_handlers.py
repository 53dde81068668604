"""Tests of logd.aio.handlers and dead_letters with a broker in memory, on an event loop of asyncio."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from logd.client.dead_letters.letter import read_letter
from logd.errors import ConfigurationError, DeadLetterFailed, StorageFull
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from tests.aio.loops import ModelTestCase

_name: ContextVar[str] = ContextVar("name", default="nobody")


class HandlersTests(ModelTestCase):
    """``AsyncioStream.handle``."""

    def store(self, count: int) -> None:
        """Make the broker, and put numbered messages into the log."""
        self.begin()
        self.log.data += encode_set([Message(b"%d" % number) for number in range(count)])

    def letters(self) -> list[bytes | None]:
        """Return the payloads of the dead letters that are stored."""
        data = bytes(self.broker.logs["d"][0].data)
        return [read_letter(message).message.payload for message in decode_set(data, 0).messages]

    def test_coroutine_functions_are_awaited_and_what_fails_becomes_a_letter(self) -> None:
        """They may await what asyncio offers; cancelling oneself is a failure as well."""

        async def main() -> list[bytes | None]:
            self.store(6)
            got: list[bytes | None] = []
            _name.set("main")
            async with self.consumer() as consumer, consumer.stream("t") as stream:

                async def handle(message: Message) -> None:
                    await asyncio.sleep(0)
                    if message.payload == b"2":
                        raise ValueError("two")
                    if message.payload == b"3":
                        raise asyncio.CancelledError
                    got.append(message.payload)
                    self.assertEqual(_name.get(), "main")
                    if message.payload == b"5":
                        stream.close()

                await stream.handle(handle, retries=1, retry_delay=0.0, dead_letters="d")
            return got

        self.assertEqual(self.run_loop(main), [b"0", b"1", b"4", b"5"])
        self.assertEqual(self.letters(), [b"2", b"3"])

    def test_cancelling_the_task_cancels_the_handler_and_its_message_comes_again(self) -> None:
        """The handler under way is told, and nothing of it counts."""

        async def main() -> bytes | None:
            self.store(3)
            begun, ended = asyncio.Event(), asyncio.Event()

            async def hang(message: Message) -> None:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            async with self.consumer() as consumer, consumer.stream("t") as stream:
                task = asyncio.create_task(stream.handle(hang, dead_letters="d"))
                await begun.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await ended.wait()
                return (await stream.get()).payload

        self.assertEqual(self.run_loop(main), b"0")
        self.assertNotIn("d", self.broker.logs)

    def test_a_generator_is_refused_and_a_topic_that_cannot_be_written_is_told(self) -> None:
        """Errors come out of the ``await``; a single letter fails the same way."""

        async def main() -> None:
            self.store(3)
            self.broker.add("d")
            self.broker.refuse = lambda part: StorageFull("full")

            async def stray(message: Message) -> object:
                yield message  # by mistake

            async with self.consumer(dead_letter_timeout=0.05) as consumer, consumer.stream("t") as stream:
                with self.assertRaises(ConfigurationError):
                    await stream.handle(stray)
                with self.assertRaises(DeadLetterFailed):
                    await stream.handle(lambda message: 1 / 0, retries=0, dead_letters="d")
                message = await stream.get()
                self.assertEqual(message.payload, b"0")
                with self.assertRaises(DeadLetterFailed):
                    await consumer.dead_letters("d").add(message, ValueError("no"))
                self.broker.refuse = lambda part: None
                await consumer.dead_letters("d").add(message, ValueError("no"))

        self.run_loop(main)
        self.assertEqual(self.letters(), [b"0"])
