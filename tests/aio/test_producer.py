"""Tests of logd.aio.producer with a broker in memory, on an event loop of asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

import logd.aio
from logd.aio.admin import Admin, AsyncioAdmin
from logd.aio.consumer import AsyncioConsumer, Consumer
from logd.aio.producer import TURN_CALLS, AsyncioProducer, Producer
from logd.client.producer.pending_send import Sent
from logd.errors import (
    ClientClosed,
    InvalidTopic,
    ProducerBufferFull,
    PublishFailed,
    StorageFull,
)
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from tests.aio.loops import ModelTestCase


class ProducerTests(ModelTestCase):
    """``AsyncioProducer``."""

    def test_the_names_of_the_package_are_the_classes(self) -> None:
        """`from logd.aio import Producer` reads as elsewhere."""
        self.assertEqual(
            (logd.aio.Producer, logd.aio.Consumer, logd.aio.Admin), (AsyncioProducer, AsyncioConsumer, AsyncioAdmin)
        )
        self.assertEqual((Producer, Consumer, Admin), (AsyncioProducer, AsyncioConsumer, AsyncioAdmin))

    def test_awaiting_a_send_gives_the_place_of_its_set(self) -> None:
        """Sends that are not awaited go out too, in the order of the calls."""

        async def main() -> tuple[Sent, Sent]:
            self.begin()
            async with self.producer() as producer:
                first = producer.send("t", b"a")
                return await producer.send("t", [b"bb", Message(b"c")]), await first

        self.assertEqual(self.run_loop(main), (Sent("t", 0, 10, 31), Sent("t", 0, 0, 10)))
        self.assertEqual(self.log.payloads(), [b"a", b"bb", b"c"])

    def test_the_end_of_the_block_delivers_what_was_not_awaited(self) -> None:
        """It flushes, as ``close`` does."""

        async def main() -> None:
            self.begin()
            async with self.producer() as producer:
                for number in range(3 * TURN_CALLS):
                    await producer.ready()
                    producer.send("t", b"%d" % number)

        self.run_loop(main)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(3 * TURN_CALLS)])

    def test_errors_of_a_send_keep_their_class(self) -> None:
        """Those known at once, those of the broker, and a wrong type, which is raised by the call itself."""

        async def main() -> None:
            broker = self.begin()
            async with self.producer(delivery_timeout=0.2) as producer:
                with self.assertRaises(InvalidTopic):
                    await producer.send("a/b", b"")
                with self.assertRaises(TypeError):
                    producer.send("t", 5)  # type: ignore[arg-type]  # which is the point
                broker.refuse = lambda part: StorageFull("no room")
                with self.assertRaises(Exception) as caught:
                    await producer.send("t", b"a")
                self.assertIsInstance(caught.exception.__cause__, StorageFull)
            with self.assertRaises(ClientClosed):
                await producer.send("t", b"a")
            with self.assertRaises(ClientClosed):
                await producer.ready()

        self.run_loop(main)

    def test_an_error_that_nobody_awaits_is_told_by_the_loop(self) -> None:
        """asyncio reports futures whose exception was never looked at; flush passes over it."""

        async def main() -> None:
            self.begin()
            async with self.producer() as producer:
                producer.send("a/b", b"")
                await producer.flush()

        self.run_loop_with_complaints(main, "DeferredFuture exception was never retrieved")

    def run_loop_with_complaints(self, main: Any, *texts: str) -> None:
        """Run ``main`` and expect these complaints of the loop."""
        self.assertRaises(self.failureException, self.run_loop, main)
        self.assertEqual([each["message"].split(":")[0] for each in self.complaints], list(texts))

    def test_published_messages_are_delivered_in_order_without_futures(self) -> None:
        """``publish`` and ``send`` share the order; the key and the other parts of a message go with it."""

        async def main() -> None:
            self.begin()
            async with self.producer() as producer:
                self.assertTrue(producer.publish("t", b"a"))
                sent = producer.send("t", b"b")
                self.assertTrue(producer.publish("t", b"c", key=b"k", timestamp=7, headers=[("h", b"v")]))
                await producer.flush()
                self.assertTrue(sent.done())

        self.run_loop(main)
        self.assertEqual(self.log.payloads(), [b"a", b"b", b"c"])
        last = decode_set(bytes(self.log.data)).messages[-1]
        self.assertEqual((last.key, last.timestamp, last.headers), (b"k", 7, (("h", b"v"),)))

    def test_a_full_buffer_is_told_and_waited_for(self) -> None:
        """False means that the message was taken and the next one has to wait, which bounds the memory."""

        async def main() -> tuple[int, int]:
            self.begin().delay = 0.002
            most = refused = 0
            async with self.producer(buffer_bytes=50_000) as producer:
                for _ in range(300):
                    if not producer.publish("t", b"x" * 900):
                        refused += 1
                        await producer.ready()
                    most = max(most, producer.buffered_bytes)
            return most, refused

        most, refused = self.run_loop(main)
        self.assertLess(most, 60_000)
        self.assertGreater(refused, 0)
        self.assertEqual(len(self.log.payloads()), 300)

    def test_published_messages_that_fail_are_counted_and_raised_by_flush(self) -> None:
        """``on_error`` may be set late; errors known at once are raised by ``publish`` itself."""
        told: list[tuple[str, int, str]] = []

        async def main() -> None:
            self.begin().refuse = lambda part: StorageFull("no room")
            async with self.producer(delivery_timeout=0.2) as producer:
                producer.on_error = lambda topic, number, error: told.append((topic, number, type(error).__name__))
                self.assertRaises(InvalidTopic, producer.publish, "a/b", b"")
                producer.publish("t", b"a")
                producer.publish("t", b"b")
                with self.assertRaises(PublishFailed):
                    await producer.flush()
                await producer.flush()
            self.assertRaises(ClientClosed, producer.publish, "t", b"c")

        self.run_loop(main)
        self.assertEqual([(topic, kind) for topic, _, kind in told], [("t", "DeliveryFailed")] * len(told))
        self.assertEqual(sum(number for _, number, _ in told), 2)

    def test_a_cancelled_task_takes_its_message_back(self) -> None:
        """A send that has not left is never sent, and the sends behind it are."""

        async def main() -> None:
            self.begin()
            async with self.producer(linger=0.02) as producer:

                async def send() -> None:
                    await producer.send("t", b"taken back")

                task = asyncio.create_task(send())
                await asyncio.sleep(0)
                behind = producer.send("t", b"behind")
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await behind

        self.run_loop(main)
        self.assertEqual(self.log.payloads(), [b"behind"])

    def test_a_producer_faster_than_its_broker_waits_for_room(self) -> None:
        """``ready`` holds it back within ``buffer_bytes``, and without it ``send`` fails at its bound."""

        async def main() -> int:
            broker = self.begin()
            broker.delay = 0.002
            most = 0
            async with self.producer(buffer_bytes=50_000, max_waiting=10, batch_bytes=5000) as producer:
                for _ in range(300):
                    await producer.ready()
                    producer.send("t", b"x" * 900)
                    most = max(most, producer.buffered_bytes)
                await producer.flush()
                self.assertEqual(len(self.log.payloads()), 300)
                sends = [producer.send("t", b"x" * 900) for _ in range(300)]
                ended = await asyncio.gather(*sends, return_exceptions=True)
                self.assertIsInstance(ended[-1], ProducerBufferFull)
            return most

        self.assertLess(self.run_loop(main), 60_000)

    def test_a_task_that_sends_without_a_pause_gives_others_a_turn(self) -> None:
        """A web application answers its other requests meanwhile."""

        async def main() -> int:
            self.begin()
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async with self.producer() as producer:
                task = asyncio.create_task(other())
                for _ in range(10 * TURN_CALLS):
                    await producer.ready()
                    producer.send("t", b"")
                task.cancel()
            return turns

        self.assertGreaterEqual(self.run_loop(main), 10)

    def test_a_cancelled_block_does_not_wait_for_a_broker_that_is_away(self) -> None:
        """Ctrl-C under asyncio.run cancels the main task, which should end then."""

        async def main() -> None:
            self.begin().silent = (object,)
            clock = asyncio.get_running_loop()
            begun = clock.time()
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.05), self.producer() as producer:
                    sent = producer.send("t", b"a")
                    await asyncio.Event().wait()
            with self.assertRaises(ClientClosed):
                await sent
            self.assertLess(clock.time() - begun, 5)

        self.run_loop(main)
