"""Tests of streams and consumers that an application drops without closing them."""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet.defer import Deferred

from logd.client.consumer.dropped import afresh
from logd.client.consumer.stream import MessageStream
from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.fetch_wait import FetchWait
from tests.client.consumers import ConsumerCase
from tests.client.dropping import OwnFaultError, fail_in_a_loop, warnings_of


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
