"""Tests of logd.client.consumer.stream: the ways to read, against a broker in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.client.consumer.stream import MessageStream
from logd.errors import (
    ClientClosed,
    ConfigurationError,
    WrongPartition,
)
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.consumers import ConsumerTestCase


class StreamTests(ConsumerTestCase):
    """The ways to read a ``MessageStream``."""

    def test_all_messages_come_in_order(self) -> None:
        """The order is that of each partition; messages appended later follow."""
        messages, _ = self.read(self.stream(fetch_bytes=64))
        self.run_for()
        for number, log in self.logs.items():
            self.assertEqual(self.payloads(messages, number), log.payloads())
        self.logs[1].data += encode_set([Message(b"late")])
        self.run_for()
        self.assertEqual(messages[-1].payload, b"late")

    def test_a_batch_has_messages_of_one_partition(self) -> None:
        """No batch is larger than decode_messages."""
        stream = self.stream(decode_messages=30)
        got: list[Any] = []

        async def loop() -> None:
            async for batch in stream.batches():
                got.append(batch)

        Deferred.fromCoroutine(loop())
        self.run_for()
        self.assertEqual(sum(len(batch.messages) for batch in got), 300)
        self.assertEqual(max(len(batch.messages) for batch in got), 30)
        self.assertTrue(all(message.partition == b.partition for b in got for message in b.messages))

    def test_batches_end_at_the_given_positions(self) -> None:
        """With the ends as they are now a loop ends, though the stream would not."""
        stream = self.stream()
        got: list[int] = []

        async def loop() -> None:
            async for batch in stream.batches(until=await stream.end_positions()):
                got.append(len(batch.messages))

        done = Deferred.fromCoroutine(loop())
        self.run_for()
        self.successResultOf(done)
        self.assertEqual(sum(got), 300)

    def test_an_empty_topic_is_at_its_end_at_once(self) -> None:
        """A loop up to the end would wait for a first message otherwise."""
        self.broker.add("empty", 2)
        (stream,) = self.consumer().create_message_streams("empty", 1)

        async def loop() -> list[Any]:
            return [batch async for batch in stream.batches(until=await stream.end_positions())]

        done = Deferred.fromCoroutine(loop())
        self.run_for()
        self.assertEqual(self.successResultOf(done), [])

    def test_an_end_of_a_partition_that_the_stream_does_not_have_is_refused(self) -> None:
        """The iteration would never end; a stream for which no partition was left says so too."""
        streams = self.consumer().create_message_streams("t", 4)

        async def loop(stream: MessageStream, until: dict[int, int]) -> None:
            async for _ in stream.batches(until=until):
                pass

        beyond = Deferred.fromCoroutine(loop(streams[0], {7: 0, 0: 0}))
        without = Deferred.fromCoroutine(loop(streams[3], {0: 0}))
        self.run_for()
        self.assertIn("partition 7", str(self.failureResultOf(beyond, WrongPartition).value))
        self.failureResultOf(without, WrongPartition)

    def test_raw_chunks_joined_are_the_log(self) -> None:
        """Each chunk says where in the log it begins."""
        stream = self.stream(fetch_bytes=100)
        logs = {0: b"", 1: b"", 2: b""}

        async def loop() -> None:
            async for chunk in stream.raw(until=await stream.end_positions()):
                self.assertEqual(chunk.position, len(logs[chunk.partition]))
                logs[chunk.partition] += chunk.data

        done = Deferred.fromCoroutine(loop())
        self.run_for()
        self.successResultOf(done)
        self.assertEqual(logs, {number: bytes(log.data) for number, log in self.logs.items()})

    def test_get_fires_with_one_message(self) -> None:
        """Several calls are served in order, and one that is cancelled takes no message."""
        stream = self.stream([0])
        first, second, third = stream.get(), stream.get(), stream.get()
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.run_for()
        got = [self.successResultOf(each).payload for each in (first, third, stream.get())]
        self.assertEqual(got, self.logs[0].payloads()[:3])

    def test_get_waits_at_the_end_of_the_log(self) -> None:
        """The next message that is appended ends the wait."""
        stream = self.stream([0], start="latest")
        waiting = stream.get()
        self.run_for()
        self.assertNoResult(waiting)
        self.logs[0].data += encode_set([Message(b"new")])
        self.run_for()
        self.assertEqual(self.successResultOf(waiting).payload, b"new")

    def test_each_way_of_reading_goes_on_where_another_stopped(self) -> None:
        """These are ``get``, a loop that was left, and batches."""
        stream = self.stream([0])
        messages, _ = self.read(stream, most=5)
        self.run_for()
        messages.append(self.successResultOf(stream.get()))

        async def loop() -> None:
            async for batch in stream.batches(until={0: self.logs[0].end}):
                messages.extend(batch.messages)

        done = Deferred.fromCoroutine(loop())
        self.run_for()
        self.successResultOf(done)
        self.assertEqual([message.payload for message in messages], self.logs[0].payloads())

    def test_positions_follow_the_last_message_handed_over(self) -> None:
        """A position is behind its message also in the middle of a batch."""
        stream = self.stream([0, 1])
        messages, _ = self.read(stream, most=130)
        self.run_for()
        expected = {0: 0, 1: 0}
        for message in messages:
            expected[message.partition] = message.next_position
        self.assertEqual(stream.positions(), expected)

    def test_a_seek_takes_effect_inside_a_loop(self) -> None:
        """The rest of the batch at hand is dropped; partitions of other streams and negative positions are refused."""
        stream = self.stream([0])
        seen: list[int] = []

        async def loop() -> None:
            async for message in stream:
                seen.append(message.id)
                if len(seen) == 10:
                    stream.seek(0, 19 * 50)

        Deferred.fromCoroutine(loop())
        self.run_for()
        self.assertEqual(seen, [19 * n for n in range(10)] + [19 * n for n in range(50, 100)])
        self.assertRaises(WrongPartition, stream.seek, 7, 0)
        self.assertRaises(ConfigurationError, stream.seek, 0, -1)

    def test_closing_a_stream_ends_its_loops(self) -> None:
        """A ``get`` that waits fails, since it has no message to fire with."""
        stream = self.stream([0], start="latest")
        _, done = self.read(stream)
        waiting = stream.get()
        self.run_for()
        stream.close()
        self.successResultOf(done)
        self.failureResultOf(waiting, ClientClosed)

    def test_a_long_loop_lets_the_reactor_run(self) -> None:
        """A loop over messages that are held never waits, and would starve connections and timers."""
        self.logs[0].data += encode_set([Message(b"x" * 100_000)] * 40)
        stream = self.stream([0], prefetch_bytes=64 << 20, fetch_bytes=64 << 20, decode_messages=10)
        self.run_for(0.02)
        messages, _ = self.read(stream)
        self.assertGreater(len(messages), 100)
        self.assertLess(len(messages), 140)
        self.run_for()
        self.assertEqual(len(messages), 140)
