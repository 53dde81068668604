"""Tests of logd.aio's Producer, Consumer and Admin with a broker in memory, on an event loop of asyncio."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import logd.aio
from logd.aio.admin import Admin, AsyncioAdmin
from logd.aio.consumer import AsyncioConsumer, Consumer
from logd.aio.producer import TURN_CALLS, AsyncioProducer, Producer
from logd.client.producer.pending_send import Sent
from logd.errors import (
    ClientClosed,
    ConfigurationError,
    InvalidTopic,
    ProducerBufferFull,
    PublishFailed,
    StorageFull,
    UnknownTopic,
)
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from tests.aio.loops import ModelCase


class ProducerTests(ModelCase):
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
        """What has not left is never sent, and the sends behind it are."""

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
                    await producer.send("t", b"a")
            self.assertLess(clock.time() - begun, 5)

        self.run_loop(main)


class ConsumerTests(ModelCase):
    """``AsyncioConsumer`` and ``AsyncioStream``."""

    def store(self, count: int) -> None:
        """Put numbered messages into the log."""
        self.log.data += encode_set([Message(b"%d" % number) for number in range(count)])

    def test_a_stream_yields_messages_in_order(self) -> None:
        """It goes on where an earlier loop over it stopped, in every way of reading."""

        async def main() -> list[bytes | None]:
            self.begin()
            self.store(10)
            found = []
            async with self.consumer() as consumer, consumer.stream("t") as stream:
                async for message in stream:
                    found.append(message.payload)
                    if len(found) == 3:
                        break
                found.append((await stream.get()).payload)
                ends = await stream.end_positions()
                async for batch in stream.batches(until=ends):
                    found += [message.payload for message in batch.messages]
                self.assertEqual(stream.positions(), ends)
                self.assertEqual(await stream.assigned(), (0,))
                stream.seek(0, 0)
                async for chunk in stream.raw(until=ends):
                    self.assertEqual(bytes(chunk.data), bytes(self.log.data))
            return found

        self.assertEqual(self.run_loop(main), [b"%d" % number for number in range(10)])

    def test_a_task_that_is_cancelled_while_it_waits_loses_nothing(self) -> None:
        """The messages come to the next one that reads, in each way of reading."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                stream = consumer.stream("t")

                async def through_batches() -> bytes | None:
                    async for batch in stream.batches():
                        return batch.messages[0].payload
                    return None

                async def one_by_one() -> bytes | None:
                    async for message in stream:
                        return message.payload
                    return None

                async def get() -> bytes | None:
                    return (await stream.get()).payload

                for number, read in enumerate((get, one_by_one, through_batches)):
                    with self.assertRaises(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await read()
                    self.log.data += encode_set([Message(b"%d" % number)])
                    self.assertEqual(await read(), b"%d" % number)

        self.run_loop(main)

    def test_closing_ends_every_way_of_reading(self) -> None:
        """A task that waits is told."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                stream = consumer.stream("t")
                task = asyncio.create_task(stream.get())
                await asyncio.sleep(0.01)
                stream.close()
                with self.assertRaises(ClientClosed):
                    await task
                self.assertEqual([message async for message in stream], [])
                self.assertEqual([batch async for batch in stream.batches()], [])
            with self.assertRaises(ClientClosed):
                consumer.stream("t")

        self.run_loop(main)

    def test_several_streams_share_the_partitions(self) -> None:
        """Each is for a task of its own."""

        async def main() -> None:
            self.begin(partitions=3)
            async with self.consumer() as consumer:
                streams = consumer.create_message_streams("t", 2)
                self.assertEqual([await stream.assigned() for stream in streams], [(0, 1), (2,)])

        self.run_loop(main)

    def test_a_group_stream_is_refused_without_a_group(self) -> None:
        """The error names the remedy."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                with self.assertRaisesRegex(TypeError, "give group="):
                    consumer.group_stream("t")
                with self.assertRaisesRegex(ConfigurationError, "give group="):
                    await consumer.commit()

        self.run_loop(main)


class AdminTests(ModelCase):
    """``AsyncioAdmin``."""

    def test_topics_are_made_described_and_deleted(self) -> None:
        """Errors keep their class."""

        async def main() -> None:
            self.begin()
            async with AsyncioAdmin("model:1", connect=self.broker.connect) as admin:
                self.assertEqual(await admin.create("u", 2), "uuid")
                self.assertEqual(await admin.topics(), ["t", "u"])
                self.assertEqual(len((await admin.describe("u")).partitions), 2)
                self.assertEqual((await admin.describe_log("u", 0)).visible_end, 0)
                self.assertEqual(set(await admin.describe_logs("u", [0, 1])), {0, 1})
                await admin.delete("u")
                with self.assertRaises(UnknownTopic):
                    await admin.describe("u")
                self.assertEqual([each.topic for each in (await admin.metadata()).topics], ["t"])

        self.run_loop(main)


class LoopErrorTests(ModelCase):
    """The errors for a client that is used outside of its loop."""

    def test_a_client_needs_a_running_loop(self) -> None:
        """At the top of a module there is none yet."""
        for make in (AsyncioProducer, AsyncioConsumer, AsyncioAdmin):
            self.assertIn("make the ", str(self.assertRaises(RuntimeError, make, "model:1")))

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
