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
from tests.client.consumers import ConsumerTestCase
from tests.client.dropped_streams import OwnFaultError, fail_in_a_loop, warnings_of
from tests.frozen_objects import freeze_others


class DroppedStreamTests(ConsumerTestCase):
    """Streams without a group."""

    def setUp(self) -> None:
        """Collect the warnings."""
        super().setUp()
        freeze_others(self)
        self.told = warnings_of(self)

    def fetched(self) -> int:
        """Return the number of fetches in the next two seconds, with those before that were not counted."""
        self.run_for(2.0)
        count = len([request for request in self.broker.requests if isinstance(request, FetchWait)])
        self.broker.requests.clear()
        return count

    def test_a_deleted_stream_stops_fetching(self) -> None:
        """A warning names the topic and the remedy; the consumer can open other streams."""
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

    def test_a_consumer_dropped_with_its_stream_disconnects(self) -> None:
        """No timer stays behind."""
        stream: MessageStream | None = self.stream()
        self.run_for(1.0)
        self.assertNotEqual(self.clock.getDelayedCalls(), [])
        stream = None
        self.run_for(1.0)
        self.assertIsNone(stream)
        self.assertEqual(len(self.told), 1)
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.getTime() > self.clock.seconds()], [])

    def test_a_stream_keeps_its_consumer_alive(self) -> None:
        """The application may hold the stream alone."""
        stream = self.stream()
        gc.collect()
        self.run_for(1.0)
        messages, reading = self.read(stream, 300)
        self.run_for(2.0)
        self.successResultOf(reading)
        self.assertEqual(len(messages), 300)
        self.assertEqual(self.told, [])

    def test_a_loop_that_raises_drops_its_stream(self) -> None:
        """The traceback of its error holds the stream until it is cleaned."""
        failing = Deferred.fromCoroutine(fail_in_a_loop(self.stream(), 3))
        self.run_for(1.0)
        failure = self.failureResultOf(failing, OwnFaultError)
        failure.cleanFailure()
        del failure, failing
        gc.collect()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)

    def test_a_kept_traceback_keeps_its_stream(self) -> None:
        """A debugger may read its frames, and through them the stream."""
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

    def test_a_stream_is_kept_between_two_loops(self) -> None:
        """The next loop goes on where the last one was."""
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

    def test_a_waiting_reader_keeps_its_stream(self) -> None:
        """Each way of reading gets a message that comes long after, though no name refers to the stream."""
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

    def test_a_busy_reader_keeps_its_stream(self) -> None:
        """The loop holds a message and waits for something else meanwhile."""
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

    def test_a_stream_in_a_reference_cycle_is_collected(self) -> None:
        """A cycle of the application's own goes at the next collection, with a warning."""
        box: dict[str, Any] = {"stream": self.stream()}
        box["box"] = box
        self.run_for(0.5)
        del box
        gc.collect()
        self.run_for(0.5)
        self.assertEqual(len(self.told), 1)

    def test_a_remembered_error_does_not_keep_its_stream(self) -> None:
        """The client raises the same error for each read, and its traceback would hold the stream for ever."""
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

    def test_a_closed_stream_is_dropped_without_a_warning(self) -> None:
        """One stream is closed by itself and one with its consumer."""
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

    def test_an_error_raised_afresh_says_the_same(self) -> None:
        """The attributes are the same, too, and the error that is kept has no traceback."""
        for kept in (CorruptMessage("torn", 17), WrapperTooLarge("max_decompressed", 5, 10, 20, "t: "), KeyError("k")):
            with self.assertRaises(type(kept)) as raised:
                raise afresh(kept)
            self.assertEqual(str(raised.exception), str(kept))
            self.assertEqual(vars(raised.exception), vars(kept))
            self.assertIsNone(kept.__traceback__)
