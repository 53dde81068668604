"""Tests of streams and consumers that an application drops without closing them."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from logd.client.blocking import Consumer as BlockingConsumer
from logd.client.consumer import Consumer
from logd.client.dropping import afresh
from logd.client.stream import MessageStream
from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.fetch_wait import FetchWait
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.consumers import ConsumerCase
from tests.client.groups import Application, ClientGroupCase
from tests.client.model import ModelBroker


class OwnFaultError(Exception):
    """What an application's loop raises."""


def warnings_of(case: Any) -> list[LogEvent]:
    """A list that gets every warning about dropped streams."""
    told: list[LogEvent] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        if event.get("log_namespace") == "logd.client.dropping.DroppedStreams":
            told.append(event)

    globalLogPublisher.addObserver(observe)
    case.addCleanup(globalLogPublisher.removeObserver, observe)
    return told


async def fail_in_a_loop(stream: MessageStream, after: int) -> None:
    """Read some messages and raise, as applications do."""
    async for _ in stream:
        after -= 1
        if not after:
            raise OwnFaultError


class DroppedStreamTests(ConsumerCase):
    """A stream without a group."""

    def setUp(self) -> None:
        """Listen to warnings."""
        super().setUp()
        self.told = warnings_of(self)

    def fetched(self) -> int:
        """How many fetches there were so far."""
        self.run_for(2.0)
        count = len([request for request in self.broker.requests if isinstance(request, FetchWait)])
        self.broker.requests.clear()
        return count

    def test_deleted(self) -> None:
        """The last reference is gone: nothing more is fetched, and a warning names the topic and the remedy."""
        consumer = self.consumer()
        (stream,) = consumer.create_message_streams("t", 1)
        self.run_for(1.0)
        self.assertEqual(self.told, [])
        del stream
        self.run_for(1.0)
        (event,) = self.told
        self.assertEqual(event["topic"], "t")
        self.assertIn("async with", event["log_format"])
        self.assertIn("close()", event["log_format"])
        self.fetched()
        self.assertEqual(self.fetched(), 0)
        (other,) = consumer.create_message_streams("t", 1, [0])
        self.assertGreater(self.fetched(), 0)
        self.assertEqual(other.positions(), {0: 0})

    def test_its_consumer_too(self) -> None:
        """When its consumer is gone as well, that disconnects: no timer stays behind."""
        stream: MessageStream | None = self.stream()
        self.run_for(1.0)
        self.assertNotEqual(self.clock.getDelayedCalls(), [])
        stream = None
        self.run_for(1.0)
        self.assertIsNone(stream)
        self.assertEqual(len(self.told), 1)
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.getTime() > self.clock.seconds()], [])

    def test_keeps_its_consumer(self) -> None:
        """A stream that is held goes on, though nobody holds its consumer."""
        stream = self.stream()
        gc.collect()
        self.run_for(1.0)
        messages, reading = self.read(stream, 300)
        self.run_for(2.0)
        self.successResultOf(reading)
        self.assertEqual(len(messages), 300)
        self.assertEqual(self.told, [])

    def test_loop_that_raised(self) -> None:
        """A loop that raises drops its stream, unless the traceback that has it is kept."""
        failing = Deferred.fromCoroutine(fail_in_a_loop(self.stream(), 3))
        self.run_for(1.0)
        failure = self.failureResultOf(failing, OwnFaultError)
        failure.cleanFailure()
        del failure, failing
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)

    def test_traceback_that_is_kept(self) -> None:
        """Whoever has the traceback may read its frames: they hold the stream until the traceback is let go."""
        kept: OwnFaultError | None = None

        async def application() -> None:
            nonlocal kept
            try:
                await fail_in_a_loop(self.stream(), 3)
            except OwnFaultError as error:
                kept = error

        running = Deferred.fromCoroutine(application())
        self.run_for(1.0)
        self.successResultOf(running)
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(self.told, [])
        kept = None
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)

    def test_kept_between_loops(self) -> None:
        """A stream that is held and not read at the moment stays, and the next loop goes on where the last one was."""
        stream = self.stream([0])
        first, reading = self.read(stream, 10)
        self.run_for(1.0)
        self.successResultOf(reading)
        gc.collect()
        self.run_for(5.0)
        second, reading = self.read(stream, 90)
        self.run_for(1.0)
        self.successResultOf(reading)
        self.assertEqual(self.payloads(first + second, 0), self.logs[0].payloads())
        self.assertEqual(self.told, [])

    def test_waited_for(self) -> None:
        """A reader that waits keeps its stream, however it reads: what comes later is delivered."""
        got: list[bytes] = []

        async def one_by_one(stream: MessageStream) -> None:
            async for message in stream:
                got.append(message.payload or b"")

        async def in_batches(stream: MessageStream) -> None:
            async for batch in stream.batches():
                got.extend(message.payload or b"" for message in batch.messages)

        async def as_bytes(stream: MessageStream) -> None:
            async for chunk in stream.raw():
                got.append(bytes(chunk.data))

        async def by_get(stream: MessageStream) -> None:
            got.append((await stream.get()).payload or b"")

        for work in (one_by_one, in_batches, as_bytes, by_get):
            Deferred.fromCoroutine(work(self.stream([1], start="latest")))  # nothing else refers to it
        self.stream([1], start="latest").get().addCallback(lambda message: got.append(message.payload or b""))
        for _ in range(3):
            self.run_for(1.0)
            gc.collect()
        self.assertEqual((got, self.told), ([], []))
        self.logs[1].data += encode_set([Message(b"late")])
        self.run_for(1.0)
        self.assertEqual([b"late" in each for each in got], [True] * 5)
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 2)  # those of the two get()s, which have ended

    def test_busy_with_a_message(self) -> None:
        """So does a reader that is busy with what it was given."""
        busy: Deferred[None] = Deferred()
        got: list[Message] = []

        async def read(stream: MessageStream) -> None:
            async for message in stream:
                got.append(message)
                await busy

        Deferred.fromCoroutine(read(self.stream([0])))
        self.run_for(1.0)
        gc.collect()
        self.run_for(1.0)
        self.assertEqual((len(got), self.told), (1, []))
        busy.callback(None)
        self.run_for(1.0)
        self.assertEqual(len(got), 100)

    def test_cycle(self) -> None:
        """A stream in a cycle of the application's own goes with the cycle."""
        box: dict[str, Any] = {"stream": self.stream()}
        box["box"] = box
        self.run_for(0.5)
        del box
        gc.collect()
        self.run_for(0.5)
        self.assertEqual(len(self.told), 1)

    def test_failed(self) -> None:
        """A stream whose reading failed is not kept by the error that the client remembers."""
        self.logs[0].data[self.logs[0].boundaries()[1] + 9] ^= 1

        async def read(stream: MessageStream) -> None:
            async for _ in stream:
                pass

        async def application() -> str:
            stream = self.stream([0])
            for _ in range(2):
                try:
                    await read(stream)
                except CorruptMessage as error:
                    text = str(error)
            return text

        running = Deferred.fromCoroutine(application())
        self.run_for(3.0)
        self.assertIn("partition 0", self.successResultOf(running))
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)

    def test_closed(self) -> None:
        """What was closed, alone or with its consumer, is dropped in silence."""
        consumer = self.consumer()
        first, second = consumer.create_message_streams("t", 2)
        self.run_for(1.0)
        first.close()
        del first
        self.run_for(1.0)
        consumer.close()
        del second, consumer
        self.run_for(1.0)
        self.assertEqual(self.told, [])

    def test_afresh(self) -> None:
        """An error raised afresh says the same, and the one that is kept has no traceback."""
        for kept in (CorruptMessage("torn", 17), WrapperTooLarge("max_decompressed", 5, 10, 20, "t: "), KeyError("k")):
            with self.assertRaises(type(kept)) as raised:
                raise afresh(kept)
            self.assertEqual(str(raised.exception), str(kept))
            self.assertEqual(vars(raised.exception), vars(kept))
            self.assertIsNone(kept.__traceback__)


class DroppedMemberTests(ClientGroupCase):
    """Streams of a group."""

    def setUp(self) -> None:
        """Listen to warnings."""
        super().setUp()
        self.told = warnings_of(self)

    def test_loop_that_raised(self) -> None:
        """The member whose loop raised gives its partitions up, with what it handled; the other one has them all."""
        first = Application(self)
        second = Application(self).read()
        self.run_for(2.0)
        self.assertEqual(len(first.streams[0].partitions()), 2)
        begun = first.streams[0].partitions()[0]
        failing = Deferred.fromCoroutine(fail_in_a_loop(first.streams.pop(), 21))
        self.run_for(1.0)
        failure = self.failureResultOf(failing, OwnFaultError)
        failure.cleanFailure()
        del failure, failing
        gc.collect()
        self.run_for(2.0)
        (event,) = self.told
        self.assertEqual((event["topic"], event["group"]), ("t", "g"))
        self.assertEqual(len(second.streams[0].partitions()), 4)
        again = [each for each in second.payloads() if each.startswith(b"t-%d-" % begun.partition)]
        self.assertEqual(again[0], b"t-%d-0020" % begun.partition)  # the one in hand comes again, those before do not
        assert first.consumer.group is not None
        self.assertEqual(first.consumer.group.partitions, ())
        self.assertEqual(first.consumer.group.phase.name, "STEADY")

    def test_opens_another(self) -> None:
        """A consumer that is kept may read the topic by another stream, which goes on where the dropped one was."""
        app = Application(self, commit_interval=0.0).read(10)
        self.run_for(1.0)
        app.streams.clear()
        app.loops.clear()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)
        (stream,) = app.consumer.create_message_streams("t", 1)
        app.streams.append(stream)  # type: ignore[arg-type]  # a GroupStream
        app.read()
        self.run_for(1.0)
        self.assertEqual(sorted({*app.payloads()}), self.everything())
        self.assertEqual(len(app.got), 201)

    def test_one_of_two(self) -> None:
        """Of two streams of a consumer the one that is kept gets all partitions."""
        app = Application(self, n=2)
        self.run_for(1.0)
        self.assertEqual([len(stream.partitions()) for stream in app.streams], [2, 2])
        del app.streams[0]
        self.run_for(1.0)
        self.assertEqual([len(stream.partitions()) for stream in app.streams], [4])
        app.read()
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads()), self.everything())

    def test_consumer(self) -> None:
        """A consumer that is dropped with its streams leaves the group."""
        second = Application(self)
        first = Application(self)
        coordination = first.coordination  # its session would end with it
        consumer: Consumer | None = first.consumer
        del first
        self.run_for(2.0)
        self.assertEqual(len(second.streams[0].partitions()), 4)  # its streams were dropped at once
        self.assertEqual(len(self.told), 1)
        children = self.eye.get_children("/consumers/g/ids")
        self.run_for(0.1)
        self.assertEqual(len(self.successResultOf(children)), 2)
        consumer = None
        self.run_for(2.0)
        self.assertIsNone(consumer)
        self.assertEqual(coordination.state.name, "CONNECTED")
        children = self.eye.get_children("/consumers/g/ids")
        self.run_for(0.1)
        self.assertEqual(len(self.successResultOf(children)), 1)

    def test_closed(self) -> None:
        """``close`` of one stream gives back what it has, too, and without a warning."""
        first, second = Application(self), Application(self)
        self.run_for(2.0)
        first.streams[0].close()
        self.run_for(2.0)
        self.assertEqual(len(second.streams[0].partitions()), 4)
        first.consumer.close()
        first.streams.clear()
        self.run_for(1.0)
        self.assertEqual(self.told, [])


class DroppedBlockingTests(TestCase):
    """Streams for threads, under the real reactor."""

    timeout = 30

    def setUp(self) -> None:
        """A topic of one partition."""
        self.told = warnings_of(self)
        self.broker = ModelBroker(reactor, delay=0.0)  # type: ignore[arg-type]  # a clock all the same
        self.logs = self.broker.add("t", 1)
        self.logs[0].data += encode_set([Message(b"%d" % number) for number in range(10_000)])

    async def test_loop_that_raised(self) -> None:
        """A thread whose loop raises drops its stream, in the middle of many batches; the consumer opens another."""

        def loop(consumer: BlockingConsumer) -> None:
            (stream,) = consumer.create_message_streams("t", 1)
            for number, _ in enumerate(stream):
                if number == 250:
                    raise OwnFaultError

        def work() -> tuple[bytes | None, int]:
            with BlockingConsumer("model:1", connect=self.broker.connect, decode_messages=100) as consumer:
                with contextlib.suppress(OwnFaultError):
                    loop(consumer)
                gc.collect()
                (stream,) = consumer.create_message_streams("t", 1)
                return stream.get(20).payload, len(self.told)

        self.assertEqual(await deferToThread(work), (b"0", 1))

    async def test_waits_for_room(self) -> None:
        """So does one that was never read, whose batches wait between the threads."""

        def work() -> None:
            consumer = BlockingConsumer("model:1", connect=self.broker.connect, decode_messages=100)
            (stream,) = consumer.create_message_streams("t", 1)
            stream.get(20)

        await deferToThread(work)
        gc.collect()
        while not self.told:  # at most ``timeout``
            await turn()
        self.assertEqual(len(self.told), 1)


def turn() -> Deferred[None]:
    """Let the reactor do something."""
    waiting: Deferred[None] = Deferred()
    reactor.callLater(0.01, waiting.callback, None)
    return waiting
