"""Tests of logd.client.blocking.handling: calls on a thread, with a broker in memory on the reactor's."""

from __future__ import annotations

from typing import Any

from logd.client.blocking.clients import Consumer
from logd.client.blocking.stream import BlockingStream
from logd.client.dead_letters.letter import read_letter
from logd.errors import ConfigurationError, DeadLetterFailed, StorageFull
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from tests.client.blocking.test_clients import BlockingTestCase


class BlockingHandlingTests(BlockingTestCase):
    """``BlockingStream.handle``."""

    def setUp(self) -> None:
        """Put ten messages into a partition."""
        super().setUp()
        self.logs[0].data += encode_set([Message(b"%d" % number) for number in range(10)])

    def stream(self, consumer: Consumer) -> BlockingStream:
        """Return the only stream of a consumer."""
        (stream,) = consumer.create_message_streams("topic1", 1, [0])
        return stream

    def letters(self) -> list[bytes | None]:
        """Return the payloads of the dead letters that are stored."""
        data = bytes(self.broker.logs["d"][0].data)
        return [read_letter(message).message.payload for message in decode_set(data, 0).messages]

    async def test_messages_that_fail_become_dead_letters_and_the_rest_is_handled_in_order(self) -> None:
        """The function runs in the thread that called; closing from inside ends it."""

        def work() -> list[bytes | None]:
            got: list[bytes | None] = []
            with self.consumer(dead_letters="d") as consumer:
                stream = self.stream(consumer)

                def handle(message: Message) -> None:
                    if message.payload in (b"3", b"7"):
                        raise ValueError("no good")
                    got.append(message.payload)
                    if message.payload == b"8":
                        stream.close()

                stream.handle(handle, retries=1, retry_delay=0.0)
            return got

        self.assertEqual(await self.on_thread(work), [b"%d" % number for number in (0, 1, 2, 4, 5, 6, 8)])
        self.assertEqual(self.letters(), [b"3", b"7"])

    async def test_a_message_that_is_not_handled_comes_again(self) -> None:
        """Whatever ended the handling: its own error, a topic that cannot be written, Ctrl-C."""
        self.broker.add("d")
        self.broker.refuse = lambda part: StorageFull("full") if part.topic == "d" else None

        def work() -> list[bytes | None]:
            found: list[bytes | None] = []
            with self.consumer(dead_letter_timeout=0.05) as consumer:
                stream = self.stream(consumer)

                def handle(error: type[BaseException]) -> Any:
                    def fail(message: Message) -> None:
                        raise error(message.payload)

                    return fail

                with self.assertRaises(KeyError):
                    stream.handle(handle(KeyError), retries=0)
                found.append(stream.get().payload)
                with self.assertRaises(DeadLetterFailed):
                    stream.handle(handle(KeyError), retries=0, dead_letters="d")
                found.append(stream.get().payload)
                with self.assertRaises(KeyboardInterrupt):
                    stream.handle(handle(KeyboardInterrupt), retries=0, dead_letters="d")
                found.append(stream.get().payload)
            return found

        self.assertEqual(await self.on_thread(work), [b"0", b"1", b"2"])

    async def test_coroutines_and_settings_for_them_are_refused(self) -> None:
        """A coroutine function would handle nothing: it is an error of the program, and no dead letter."""

        def work() -> None:
            async def stray(message: Message) -> None:
                raise AssertionError

            with self.consumer() as consumer:
                stream = self.stream(consumer)
                self.assertRaises(ConfigurationError, stream.handle, stray, dead_letters="d")
                self.assertRaises(ConfigurationError, stream.handle, print, concurrency=2)
                self.assertRaises(ConfigurationError, stream.handle, print, dead_letters="topic1")
                message = stream.get()
                self.assertEqual(message.payload, b"0")
                consumer.add_dead_letter("d", message, ValueError("no"))

        await self.on_thread(work)
        self.assertEqual(self.letters(), [b"0"])
