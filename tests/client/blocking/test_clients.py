"""Tests of logd.client.blocking.clients: calls on a thread, with a broker in memory on the reactor's."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.audit.event import decode_event
from logd.client.blocking import clients as blocking
from logd.client.blocking.clients import Consumer, Producer
from logd.client.blocking.reactor_thread import call_there
from logd.errors import (
    ClientClosed,
    ConfigurationError,
    CorruptMessage,
    InvalidTopic,
    MessageTooLarge,
    ProducerBufferFull,
    PublishFailed,
    WrongPartition,
)
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelBroker

T = TypeVar("T")


class BlockingTestCase(TestCase):
    """A model broker under the real reactor."""

    timeout = 240

    def setUp(self) -> None:
        """Make a topic of two partitions."""
        self.broker = ModelBroker(reactor, delay=0.0)  # type: ignore[arg-type]  # a clock all the same
        self.logs = self.broker.add("topic1", 2)

    def on_thread(self, work: Callable[[], T]) -> Deferred[T]:
        """Run blocking code on a thread, where it may block."""
        return deferToThread(work)

    def producer(self, **settings: Any) -> Producer:
        """Make a producer of the model."""
        return Producer("model:1", connect=self.broker.connect, **settings)

    def consumer(self, **settings: Any) -> Consumer:
        """Make a consumer of the model."""
        return Consumer("model:1", connect=self.broker.connect, **settings)


class BlockingProducerTests(BlockingTestCase):
    """``BlockingProducer``."""

    def test_the_papers_names_exist(self) -> None:
        """The paper's samples read the same here."""
        self.assertIs(blocking.Producer, blocking.BlockingProducer)
        self.assertIs(blocking.Consumer, blocking.BlockingConsumer)

    async def test_sent_messages_arrive_in_order(self) -> None:
        """``wait`` says where they are."""

        def work() -> tuple[int, int]:
            with self.producer() as producer:
                results = [producer.send("topic1", MessageSet([Message(b"%d" % n)]), partition=0) for n in range(3000)]
                return results[-1].wait(20).next_position, producer.send("topic1", b"x", partition=1).wait(20).partition

        self.assertEqual(await self.on_thread(work), (self.logs[0].end, 1))
        self.assertEqual(self.logs[0].payloads(), [b"%d" % n for n in range(3000)])

    async def test_wait_raises_the_error_of_its_send(self) -> None:
        """``flush`` and ``close`` pass over it, and a bad setting is refused at once."""

        def work() -> None:
            producer = self.producer()
            result = producer.send("a/b", b"")
            producer.flush(10)
            self.assertTrue(result.done)
            self.assertRaises(InvalidTopic, result.wait)
            self.assertRaises(TypeError, producer.send(None, b"1").wait)  # type: ignore[arg-type]  # no flush either
            self.assertRaises(TypeError, producer.publish, None, b"1")
            self.assertRaises(TypeError, producer.send("topic1", 5).wait)  # type: ignore[arg-type]  # which is the point
            producer.close()
            self.assertRaises(ClientClosed, producer.send, "topic1", b"")
            self.assertRaises(ConfigurationError, self.producer, acks="all")

        await self.on_thread(work)

    async def test_a_failure_without_a_waiter_is_logged(self) -> None:
        """An application that never waits learns of it from the log alone."""

        def work() -> None:
            with self.producer() as producer:
                producer.send("a/b", b"")

        await self.on_thread(work)
        self.assertEqual(len(self.flushLoggedErrors(InvalidTopic)), 1)

    async def test_the_last_failure_is_logged_at_once(self) -> None:
        """The log has it as soon as its result is dropped, though nothing is sent afterwards."""
        self.addCleanup(gc.enable)

        def work() -> None:
            with self.producer() as producer:
                gc.disable()
                producer.send("a/b", b"")
                call_there(reactor, lambda: None)  # the sends have been handled then
                call_there(reactor, lambda: None)

        await self.on_thread(work)
        self.assertEqual(len(self.flushLoggedErrors(InvalidTopic)), 1)

    async def test_published_messages_arrive_in_order(self) -> None:
        """Sends and flushes in between keep their places."""

        def work() -> None:
            with self.producer(linger=0.001) as producer:
                for number in range(3000):
                    if number % 700 == 5:
                        producer.send("topic1", b"%d" % number, partition=0)
                    elif not producer.publish("topic1", b"%d" % number, partition=0):
                        producer.ready(20)
                    if number % 1000 == 7:
                        producer.flush(20)
                        self.assertEqual(len(self.logs[0].payloads()), number + 1)

        await self.on_thread(work)
        self.assertEqual(self.logs[0].payloads(), [b"%d" % n for n in range(3000)])

    async def test_publishing_is_bounded_between_the_threads(self) -> None:
        """It says when it is full, ``ready`` waits, and beyond twice the bound nothing is taken."""
        self.broker.silent = (ProduceAck,)

        def work() -> None:
            producer = self.producer(buffer_bytes=20_000, request_timeout=0.2, retry_delay=0.01)
            taken = refused = 0
            while refused < 3:  # the reactor's thread takes messages meanwhile, until the producer itself is full
                try:
                    producer.publish("topic1", b"%d" % taken, partition=0)
                    taken += 1
                except ProducerBufferFull:
                    with contextlib.suppress(TimeoutError):
                        producer.ready(0.01)
                        continue
                    refused += 1
            self.assertFalse(producer.has_room)
            self.assertLess(taken, 2000)
            self.broker.silent = ()
            producer.ready(20)
            self.assertTrue(producer.has_room)
            producer.close(20)
            self.assertEqual(list(dict.fromkeys(self.logs[0].payloads())), [b"%d" % n for n in range(taken)])
            self.assertRaises(ClientClosed, producer.ready)
            self.assertRaises(ClientClosed, producer.publish, "topic1", b"")

        await self.on_thread(work)

    async def test_failures_of_published_messages_are_reported(self) -> None:
        """By the function and by flush; what is no message, or no topic, is refused at once."""
        told: list[tuple[str, int, Exception]] = []

        def work() -> None:
            with self.producer(on_error=lambda *report: told.append(report), message_bytes=100) as producer:
                self.assertRaises(InvalidTopic, producer.publish, "a/b", b"")
                self.assertRaises(TypeError, producer.publish, "topic1", "text")
                producer.publish("topic1", bytes(101))
                producer.publish("topic1", b"1", partition=9)
                producer.publish("topic1", b"2", b"k", 5, [("h", b"w")], 0)
                with self.assertRaises(PublishFailed) as caught:
                    producer.flush(20)
                self.assertEqual(caught.exception.count, 2)
                producer.flush(20)

        await self.on_thread(work)
        self.assertEqual([type(error) for _, _, error in told], [MessageTooLarge, WrongPartition])
        self.assertEqual(self.logs[0].payloads(), [b"2"])

    async def test_arguments_that_are_refused_on_the_reactors_thread_stop_nothing(self) -> None:
        """They are reported, and the messages behind them are delivered."""
        told: list[tuple[str, int, Exception]] = []

        def work() -> None:
            with self.producer(on_error=lambda *report: told.append(report)) as producer:
                producer.publish("topic1", b"1", partition=[0])  # type: ignore[arg-type]  # as an untyped script may
                producer.publish("topic1", b"2", partition=0)
                self.assertRaises(PublishFailed, producer.flush, 10)

        await self.on_thread(work)
        self.assertEqual([(topic, count, type(error)) for topic, count, error in told], [("topic1", 1, TypeError)])
        self.assertEqual(self.logs[0].payloads(), [b"2"])

    async def test_leaving_the_context_delivers_first(self) -> None:
        """All that was sent is delivered, without lingering."""

        def work() -> None:
            with self.producer(linger=60.0) as producer:
                for _ in range(500):
                    producer.send("topic1", b"x", partition=0)

        await self.on_thread(work)
        self.assertEqual(len(self.logs[0].payloads()), 500)

    async def test_closing_an_audited_producer_publishes_its_counts(self) -> None:
        """They are known only once the messages are acknowledged, which is when everything else is done."""
        audit = self.broker.add("_audit", 1)[0]

        def work() -> None:
            with self.producer(audit=True) as producer:
                producer.publish("topic1", b"message")

        await self.on_thread(work)
        events = [decode_event(payload) for payload in audit.payloads()]
        self.assertEqual(
            [(event.topic, event.count, event.open) for event in events], [("topic1", 0, True), ("topic1", 1, False)]
        )

    async def test_close_is_bounded_by_its_timeout(self) -> None:
        """A broker that does not answer must not keep a script from its end."""
        self.broker.up = False

        def work() -> None:
            producer = self.producer()
            result = producer.send("topic1", b"x")
            self.assertRaises(TimeoutError, result.wait, 0.01)
            producer.close(timeout=0.05)
            self.assertRaises(ClientClosed, result.wait, 10)

        await self.on_thread(work)

    async def test_close_is_bounded_without_a_timeout(self) -> None:
        """The bound is ``delivery_timeout``: messages between the threads have not begun theirs."""
        flushes: list[float | None] = []

        def work() -> None:
            producer = self.producer(delivery_timeout=7.0)
            self.patch(producer, "flush", flushes.append)
            producer.close()

        await self.on_thread(work)
        self.assertEqual(flushes, [7.0])

    async def test_the_reactors_thread_is_refused(self) -> None:
        """A call that blocks there would wait for itself."""
        await self.on_thread(lambda: None)
        self.assertRaises(RuntimeError, self.producer)


class ForkTests(TestCase):
    """A process forked from one whose reactor runs in a thread."""

    def test_a_forked_child_is_refused(self) -> None:
        """Nothing there would ever answer a call: it ends with an error, and does not wait for ever."""
        found = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=240, check=True)
        self.assertEqual(found.stdout.split(), ["refused"] * 4)


FORKING = """
import os
from logd.client.blocking import Producer
from logd.errors import ClientClosed

producer = Producer("127.0.0.1:1")
child = os.fork()
if not child:
    for call in (producer.flush, producer.close, Producer, lambda: producer.send("t", b"1")):
        try:
            call()
        except (RuntimeError, ClientClosed):
            print("refused", flush=True)
    os._exit(0)
os.waitpid(child, 0)
producer.close(0.0)
"""


class BlockingConsumerTests(BlockingTestCase):
    """``BlockingConsumer``."""

    def setUp(self) -> None:
        """Fill each partition with five thousand messages."""
        super().setUp()
        for number, log in self.logs.items():
            log.data += encode_set([Message(b"%d-%d" % (number, index)) for index in range(5000)])

    async def test_a_stream_is_iterated_as_in_the_paper(self) -> None:
        """Positions follow message by message, though messages cross the threads in batches."""

        def work() -> None:
            with self.consumer(decode_messages=300) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1, [0])
                messages = list(islice(stream, 4321))
                self.assertEqual([m.payload for m in messages], self.logs[0].payloads()[:4321])
                self.assertEqual(stream.positions(), {0: messages[-1].next_position})
                self.assertEqual(stream.get(10).payload, b"0-4321")
                self.assertEqual(stream.end_positions(), {0: self.logs[0].end})

        await self.on_thread(work)

    async def test_batches_arrive_as_they_were_decoded(self) -> None:
        """A timeout ends the wait for more."""

        def work() -> int:
            count = 0
            with self.consumer() as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                for batch in stream.batches(timeout=20):
                    count += len(batch.messages)
                    if count >= 10_000:
                        break
                self.assertRaises(TimeoutError, next, stream.batches(timeout=0.01))
            return count

        self.assertEqual(await self.on_thread(work), 10_000)

    async def test_losses_are_counted_and_told(self) -> None:
        """A batch carries the losses before it, and the stream's counts include them."""
        for log in self.logs.values():
            log.start = 1 << 40

        def work() -> tuple[int, list[str]]:
            with self.consumer() as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1, [0], start=5)
                batch = next(stream.batches(timeout=20))
                counted = stream.gaps, stream.gap_bytes, stream.skipped, stream.skipped_bytes
                self.assertEqual(counted, (0, 0, 0, 0))
                return stream.jumps, [loss.kind for loss in batch.losses]

        self.assertEqual(await self.on_thread(work), (1, ["jump"]))

    async def test_a_seek_drops_messages_on_their_way(self) -> None:
        """Messages may be between the two threads when it is called."""

        def work() -> None:
            with self.consumer(decode_messages=100) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1, [0])
                for _ in islice(stream, 150):
                    pass
                target = self.logs[0].boundaries()[40]
                stream.seek(0, target)
                self.assertEqual(stream.positions(), {0: target})
                ids = [message.id for message in islice(stream, 1000)]
                self.assertEqual(ids, self.logs[0].boundaries()[40:1040])
                self.assertRaises(WrongPartition, stream.seek, 9, 0)

        await self.on_thread(work)

    async def test_damage_is_raised_where_messages_are_read(self) -> None:
        """A seek behind it goes on."""
        known = self.logs[0].boundaries()
        self.logs[0].data[known[10] + 9] ^= 1

        def work() -> None:
            with self.consumer() as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1, [0])
                self.assertEqual(len(list(islice(stream, 10))), 10)
                self.assertRaises(CorruptMessage, stream.get, 10)
                stream.seek(0, known[11])
                self.assertEqual(stream.get(10).payload, b"0-11")

        await self.on_thread(work)

    async def test_close_is_bounded_by_its_timeout(self) -> None:
        """A coordination tree that is away must not keep a script from its end: Ctrl-C ends a block of with soon."""
        left: Deferred[None] = Deferred()

        def work() -> None:
            with contextlib.suppress(KeyboardInterrupt), self.consumer() as consumer:
                consumer._consumer.close = lambda: left  # type: ignore[method-assign]  # a group that cannot leave
                raise KeyboardInterrupt
            consumer.close(timeout=0.01)

        self.patch(blocking, "INTERRUPTED_LEAVE_SECONDS", 0.01)
        await self.on_thread(work)
        self.assertFalse(left.called)

    async def test_closing_a_stream_frees_its_thread(self) -> None:
        """The loop ends, and ``get`` fails."""

        def work() -> int:
            consumer = self.consumer(start="latest")
            (stream,) = consumer.create_message_streams("topic1", 1)
            reactor.callFromThread(reactor.callLater, 0.05, stream._stream.close)  # type: ignore[attr-defined]  # it has
            count = len(list(stream))
            self.assertRaises(ClientClosed, stream.get)
            consumer.close()
            return count

        self.assertEqual(await self.on_thread(work), 0)
