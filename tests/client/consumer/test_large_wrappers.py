"""Tests of streams that meet wrappers of few bytes which become very many messages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.entry_decoder import SLICE_BYTES
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.errors import WrapperTooLarge
from logd.protocol.batch import encode_batch
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.client.consumer.fetching.test_partition_fetch import START, read_all, serve
from tests.client.consumers import ConsumerTestCase

LINE = encode_set([Message(b"a line")])


class SlicesTests(SynchronousTestCase):
    """A partition fetch whose log holds such a wrapper."""

    def feed(self, data: bytes, **settings: Any) -> PartitionFetch:
        """Return a partition fetch that holds all of the log."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(**settings))
        serve(fetch, data, 1 << 20)
        return fetch

    def test_a_large_wrapper_is_handed_over_in_slices(self) -> None:
        """No batch has more messages than asked for, and together they have all, each at its place."""
        wrapper = encode_wrapper("gzip", LINE * 10_000)
        data = LINE + wrapper + LINE
        self.assertLess(len(wrapper), 10_000)
        fetch = self.feed(data)
        sizes = []
        positions = [START]
        while fetch.position < START + len(data):
            batch = fetch.next_batch(300)
            if batch is None:
                self.assertTrue(fetch.unfinished)
                continue
            self.assertEqual(batch.position, positions[-1])
            sizes.append(len(batch.messages))
            positions.append(batch.next_position)
        self.assertEqual((sum(sizes), max(sizes), fetch.unfinished), (10_002, 300, False))
        self.assertLessEqual(set(positions[1:-1]), {START + len(LINE), START + len(LINE + wrapper)})

    def test_a_slice_is_bounded_in_bytes(self) -> None:
        """A number of messages alone would not bound the memory."""
        fetch = self.feed(encode_wrapper("zstd", encode_set([Message(bytes(300_000))] * 30)))
        most = count = 0
        while fetch.buffered:
            batch = fetch.next_batch(2000)
            if batch is not None:
                count += len(batch.messages)
                most = max(most, sum(len(each.payload or b"") for each in batch.messages))
        self.assertEqual(count, 30)
        self.assertLess(most, SLICE_BYTES + 300_001)

    def test_a_position_between_two_slices_can_be_started_from(self) -> None:
        """The rest of the wrapper follows, and nothing comes twice."""
        messages = [Message(b"%020d" % (number * number)) for number in range(500)]
        for data in (encode_wrapper("snappy", encode_set(messages)), encode_batch(messages, "zstd")):
            fetch = self.feed(data)
            while (batch := fetch.next_batch(200)) is None:
                pass
            again = PartitionFetch("t", 0, Position(fetch.position), ConsumerSettings())
            self.assertEqual(batch.messages + read_all(again, data, 1 << 20, 77), messages)

    def test_a_wrapper_beyond_the_bounds_ends_the_stream(self) -> None:
        """The error names the setting to raise; the wrapper is sound, so it is not skipped as damage."""
        data = LINE + encode_wrapper("gzip", LINE * 1000) + LINE
        for setting, value in (("max_decompressed_messages", 999), ("max_decompressed", 1000 * len(LINE) - 1)):
            fetch = self.feed(data, on_corrupt="skip", **{setting: value})
            self.assertEqual(read_all(fetch, data, 1 << 20, 10), [Message(b"a line")])
            error = fetch.error
            assert isinstance(error, WrapperTooLarge)
            self.assertEqual((error.setting, fetch.losses.skipped, fetch.wanted(1 << 20)), (setting, 0, None))
            self.assertIn(
                f"topic 't', partition 0: the compressed wrapper from position {START + len(LINE)}", str(error)
            )
            fetch.seek(error.end)
            self.assertEqual(read_all(fetch, data, 1 << 20, 10), [Message(b"a line")])

    def test_a_batch_beyond_the_bounds_ends_the_stream(self) -> None:
        """A batch that is not compressed is bounded in messages too."""
        for codec, bound in (("none", "messages"), ("zstd", "messages"), ("zstd", "bytes")):
            setting = "max_decompressed" + ("_messages" if bound == "messages" else "")
            data = LINE + encode_batch([Message(b"a line")] * 1000, codec) + LINE
            fetch = self.feed(data, on_corrupt="skip", **{setting: 999})
            self.assertEqual(read_all(fetch, data, 1 << 20, 10), [Message(b"a line")])
            error = fetch.error
            assert isinstance(error, WrapperTooLarge)
            self.assertEqual((error.setting, fetch.losses.skipped, fetch.wanted(1 << 20)), (setting, 0, None))
            fetch.seek(error.end)
            self.assertEqual(read_all(fetch, data, 1 << 20, 10), [Message(b"a line")])

    def test_damage_ends_at_a_wrapper_that_is_too_large(self) -> None:
        """The wrapper is an entry as any other, so no messages behind the damage are skipped with it."""
        damaged = LINE[:-1] + b"!"
        data = damaged + encode_wrapper("gzip", LINE * 1000)
        fetch = self.feed(data, on_corrupt="skip", corrupt_retries=0, max_decompressed_messages=999)
        read_all(fetch, data, 1 << 20, 10)
        self.assertEqual((fetch.losses.skipped_bytes, fetch.lost_at), (len(LINE), None))
        self.assertIsInstance(fetch.error, WrapperTooLarge)


class LargeWrapperStreamTests(ConsumerTestCase):
    """Streams of a consumer whose time is the reactor's."""

    def test_the_reactor_has_turns_inside_a_large_wrapper(self) -> None:
        """Few messages are handed over between two of them."""
        self.logs[0].data += encode_wrapper("gzip", LINE * 50_000)
        stream = self.stream(decode_messages=1000)
        seen: list[int] = []
        got: list[Message] = []
        later = self.clock.callLater

        def noting(delay: float, call: Any, *given: Any, **named: Any) -> Any:
            seen.append(len(got))
            return later(delay, call, *given, **named)

        self.patch(self.clock, "callLater", noting)

        async def loop() -> None:
            async for message in stream:
                got.append(message)

        Deferred.fromCoroutine(loop())
        self.run_for()
        self.assertEqual(len(got), 50_300)
        self.assertLessEqual(max(after - before for before, after in pairwise(seen)), 1300)

    def test_one_large_wrapper_is_open_at_a_time(self) -> None:
        """Partitions that all hold such wrappers would multiply the memory otherwise."""
        for log in self.logs.values():
            log.data += encode_wrapper("gzip", LINE * 5000)
        stream = self.stream(decode_messages=100)
        most = 0
        count = 0

        async def loop() -> None:
            nonlocal most, count
            async for batch in stream.batches():
                most = max(
                    most,
                    sum(fetch.unfinished for fetch in stream.state._fetches.values()),
                )
                count += len(batch.messages)

        Deferred.fromCoroutine(loop())
        self.run_for()
        self.assertEqual((count, most), (15_300, 1))
