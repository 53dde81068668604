"""Tests of what a consumer tells of messages that it could not deliver."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.losses import Loss, LossReporter
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.errors import OffsetOutOfRange
from logd.protocol.entry import encode_gap
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.consumers import ConsumerCase

#: Bytes of one entry of ConsumerCase; of a gap that fills such a one's place.
ENTRY = 19
GAP = encode_gap(ENTRY).ljust(ENTRY, b"?")
#: Where a log begins anew that was lost.
ANEW = 1 << 40


class StreamTests(ConsumerCase):
    """Streams over a log with losses in it."""

    def setUp(self) -> None:
        """Note what is logged."""
        super().setUp()
        self.warnings: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            if event["log_level"].name == "warn":
                self.warnings.append(event["log_format"].format(**event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def batches(self, **settings: Any) -> list[MessageBatch]:
        """What a stream of partition 0 hands over, while a second passes."""
        batches: list[MessageBatch] = []
        self.the_stream = self.stream([0], start=settings.pop("start", None), **settings)

        async def loop() -> None:
            async for batch in self.the_stream.batches():
                batches.append(batch)

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        return batches

    def losses(self, batches: list[MessageBatch]) -> list[Loss]:
        """Those that the batches carry."""
        return [loss for batch in batches for loss in batch.losses]

    def test_none(self) -> None:
        """A sound log has none, and nothing is logged."""
        self.assertEqual((self.losses(self.batches()), self.warnings), ([], []))

    def test_gap(self) -> None:
        """A gap comes with the batch that passes it, and is logged."""
        self.logs[0].data[ENTRY * 5 : ENTRY * 6] = GAP
        batches = self.batches()
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.bytes, loss.partition), ("gap", ENTRY, 0))
        self.assertTrue(loss.start <= ENTRY * 5 and loss.end >= ENTRY * 6)
        self.assertEqual(sum(len(batch.messages) for batch in batches), 99)
        (warning,) = self.warnings
        self.assertIn(f"topic 't', partition 0: 1 gap of {ENTRY} bytes", warning)

    def test_many_gaps(self) -> None:
        """However many there are, the log has few lines of them, and in the end all are counted."""
        for number in range(100):
            self.logs[0].data[ENTRY * number : ENTRY * (number + 1)] = GAP
        batches = self.batches(decode_messages=1)
        self.assertEqual(sum(loss.bytes or 0 for loss in self.losses(batches)), 100 * ENTRY)
        self.the_stream.close()
        self.assertLess(len(self.warnings), 10)
        self.assertIn(f"100 such losses by now, {100 * ENTRY:,} bytes", self.warnings[-1])

    def test_damage(self) -> None:
        """So do damaged places, where it is said that they are skipped."""
        self.logs[0].data[ENTRY * 5 + 12] ^= 1
        batches = self.batches(on_corrupt="skip", corrupt_retries=0)
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("damage", ENTRY * 5, ENTRY * 6, ENTRY))
        (warning,) = self.warnings
        self.assertIn(f"skipping the damage at {ENTRY * 5}", warning)

    def test_log_that_begins_behind(self) -> None:
        """A position in a log that was lost: one loss of an unknown number of messages, told before any comes."""
        log = self.logs[0]
        log.start, log.data = ANEW, log.data[:0]
        batches = self.batches(start=700)
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("jump", 700, ANEW, None))
        self.assertEqual((batches[0].messages, batches[0].position, batches[0].next_position), ([], ANEW, ANEW))
        (warning,) = self.warnings
        self.assertIn("an unknown number of messages", warning)
        log.data += encode_set([Message(b"new")])
        self.run_for(1.0)
        self.assertEqual([message.id for batch in batches for message in batch.messages], [ANEW])
        self.assertEqual((len(self.losses(batches)), self.the_stream.jumps), (1, 1))

    def test_log_that_ends_before(self) -> None:
        """A position behind the log's end is one, too."""
        (loss,) = self.losses(self.batches(start=10**6))
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("jump", 10**6, 0, None))

    def begin_anew(self, size: int = 0, **settings: str) -> None:
        """The log is lost while a stream holds what it fetched, of the last entry the first ``size`` bytes alone."""
        log = self.logs[0]
        if size:
            del log.data[99 * ENTRY + size :]
        self.the_stream = self.stream([0], **settings)
        self.run_for(1.0)
        log.start, log.data = ANEW, bytearray(encode_set([Message(b"new")]))
        self.run_for(1.0)

    def test_what_is_held_comes_first(self) -> None:
        """Messages that were fetched before the log was lost are delivered, and then the loss is told."""
        for size, count in ((0, 100), (7, 99)):
            self.begin_anew(size)
            batches = self.rest()
            ids = [message.id for batch in batches for message in batch.messages]
            self.assertEqual(ids, [*range(0, count * ENTRY, ENTRY), ANEW])
            (loss,) = self.losses(batches)
            self.assertEqual((loss.start, loss.end), (count * ENTRY, ANEW))
            self.setUp()

    def test_what_is_held_comes_before_the_error(self) -> None:
        """So it is where the stream is to fail."""
        self.begin_anew(on_out_of_range="fail")
        messages, reading = self.read(self.the_stream)
        self.run_for(1.0)
        self.assertEqual(len(messages), 100)
        self.assertIn("an unknown number of messages", str(self.failureResultOf(reading, OffsetOutOfRange).value))
        self.the_stream.seek(0, ANEW)
        messages, _ = self.read(self.the_stream)
        self.run_for(1.0)
        self.assertEqual([message.id for message in messages], [ANEW])

    def rest(self) -> list[MessageBatch]:
        """What the stream hands over now."""
        batches: list[MessageBatch] = []

        async def loop() -> None:
            async for batch in self.the_stream.batches():
                batches.append(batch)

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        return batches

    def test_what_is_held_comes_first_raw(self) -> None:
        """So are raw bytes."""
        self.begin_anew()
        chunks: list[tuple[int, int]] = []

        async def loop() -> None:
            async for chunk in self.the_stream.raw():
                chunks.append((chunk.position, chunk.next_position))

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        self.assertEqual((chunks[0][0], chunks[-2][1]), (0, 100 * ENTRY))
        self.assertEqual(chunks[-1], (ANEW, self.logs[0].end))

    def test_raw(self) -> None:
        """Raw bytes carry the jumps before them; gaps are in the bytes."""
        self.logs[0].start = ANEW
        stream = self.stream([0], start=700)
        chunks = []

        async def loop() -> None:
            async for chunk in stream.raw():
                chunks.append(chunk)

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        self.assertEqual([loss.kind for chunk in chunks for loss in chunk.losses], ["jump"])


class HugeGapTests(SynchronousTestCase):
    """A gap of 2^30 bytes, as it stands in the place of a segment that was lost."""

    def test_only_its_beginning_is_fetched(self) -> None:
        """No more than what is under way is fetched of it."""
        size = 1 << 30
        behind = encode_set([Message(b"behind")])
        settings = ConsumerSettings()
        fetch = PartitionFetch("t", 0, Position(0), settings)
        fetched = 0
        messages: list[Message] = []
        losses: list[Loss] = []
        while fetch.position < size + len(behind):
            wanted = fetch.wanted(settings.prefetch_bytes)
            assert wanted is not None
            fetch.asked(wanted)
            if wanted.offset < size:
                data = (encode_gap(size) + bytes(wanted.max_bytes))[wanted.offset :][: wanted.max_bytes]
                fetched += len(data)
            else:
                data = behind[wanted.offset - size :]
            fetch.received(wanted, wanted.offset, data, size + len(behind))
            while (batch := fetch.next_batch(100)) is not None:
                messages += batch.messages
                losses += batch.losses
        self.assertLessEqual(fetched, 2 * settings.fetch_bytes)
        self.assertEqual([message.id for message in messages], [size])
        self.assertEqual([(loss.kind, loss.bytes) for loss in losses], [("gap", size)])


class JumpTests(SynchronousTestCase):
    """A partition fetch whose position is not in the log."""

    def test_seek(self) -> None:
        """Where the application seeks before it was told of a jump, the next batch from there tells of it."""
        fetch = PartitionFetch("t", 0, Position(700), ConsumerSettings())
        wanted = fetch.wanted(1 << 20)
        assert wanted is not None
        fetch.asked(wanted)
        fetch.out_of_range(wanted, ANEW, ANEW + ENTRY)
        fetch.seek(ANEW + ENTRY)
        self.assertIsNone(fetch.next_batch(10))
        wanted = fetch.wanted(1 << 20)
        assert wanted is not None
        fetch.asked(wanted)
        data = encode_set([Message(b"new")])
        fetch.received(wanted, ANEW + ENTRY, data, ANEW + ENTRY + len(data))
        batch = fetch.next_batch(10)
        assert batch is not None
        self.assertEqual((batch.position, [loss.end for loss in batch.losses]), (ANEW + ENTRY, [ANEW]))


class LossReporterTests(SynchronousTestCase):
    """``LossReporter``."""

    def test_sums(self) -> None:
        """Jumps are told one by one; of the rest the first, and then sums."""
        reporter = LossReporter()
        gap = Loss("t", 0, "gap", 0, 50, 10, "1 gap of 10 bytes")
        jump = Loss("t", 0, "jump", 0, ANEW, None, "lost")
        lines = [line for loss in [gap, jump, *[gap] * 5, jump] for line in reporter.add(loss)]
        self.assertEqual(
            lines,
            [
                "topic 't', partition 0: 1 gap of 10 bytes",
                "topic 't', partition 0: lost",
                "topic 't', partition 0: 1 gap of 10 bytes (2 such losses by now, 20 bytes)",
                "topic 't', partition 0: 1 gap of 10 bytes (4 such losses by now, 40 bytes)",
                "topic 't', partition 0: lost",
            ],
        )
        rest = ["topic 't', partition 0: 1 gap of 10 bytes (6 such losses by now, 60 bytes)"]
        self.assertEqual(reporter.rest(), rest)
        self.assertEqual(reporter.rest(), [])
