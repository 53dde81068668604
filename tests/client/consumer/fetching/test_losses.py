"""Tests of the losses that a consumer reports: messages that it could not deliver."""

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
from tests.client.consumers import ConsumerTestCase
from tests.client.doubles import ModelBroker

#: Bytes of one entry of ConsumerTestCase, and a gap in the place of one.
ENTRY = 19
GAP = encode_gap(ENTRY).ljust(ENTRY, b"?")
#: The position at which a lost log begins anew.
ANEW = 1 << 40


class LossStreamTests(ConsumerTestCase):
    """Streams over a log with losses in it."""

    def setUp(self) -> None:
        """Collect the warnings."""
        super().setUp()
        self.warnings: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            if event["log_level"].name == "warn":
                self.warnings.append(event["log_format"].format(**event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def batches(self, **settings: Any) -> list[MessageBatch]:
        """Return the batches that a stream of partition 0 hands over in a second."""
        batches: list[MessageBatch] = []
        self.the_stream = self.stream([0], start=settings.pop("start", None), **settings)

        async def loop() -> None:
            async for batch in self.the_stream.batches():
                batches.append(batch)

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        return batches

    def losses(self, batches: list[MessageBatch]) -> list[Loss]:
        """Return the losses that the batches carry."""
        return [loss for batch in batches for loss in batch.losses]

    def test_a_sound_log_has_no_losses(self) -> None:
        """Nothing is logged, either."""
        self.assertEqual((self.losses(self.batches()), self.warnings), ([], []))

    def test_a_gap_comes_with_the_batch_that_passes_it(self) -> None:
        """The log has a line for it as well, with partition and size."""
        self.logs[0].data[ENTRY * 5 : ENTRY * 6] = GAP
        batches = self.batches()
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.bytes, loss.partition), ("gap", ENTRY, 0))
        self.assertTrue(loss.start <= ENTRY * 5 and loss.end >= ENTRY * 6)
        self.assertEqual(sum(len(batch.messages) for batch in batches), 99)
        (warning,) = self.warnings
        self.assertIn(f"topic 't', partition 0: 1 gap of {ENTRY} bytes", warning)

    def test_many_gaps_make_few_log_lines(self) -> None:
        """All are counted in the end, so that the last line has the sum."""
        for number in range(100):
            self.logs[0].data[ENTRY * number : ENTRY * (number + 1)] = GAP
        batches = self.batches(decode_messages=1)
        self.assertEqual(sum(loss.bytes or 0 for loss in self.losses(batches)), 100 * ENTRY)
        self.the_stream.close()
        self.assertLess(len(self.warnings), 10)
        self.assertIn(f"100 such losses by now, {100 * ENTRY:,} bytes", self.warnings[-1])

    def test_skipped_damage_comes_with_the_batch_that_passes_it(self) -> None:
        """With on_corrupt="skip" the application is not told of it by an error."""
        self.logs[0].data[ENTRY * 5 + 12] ^= 1
        batches = self.batches(on_corrupt="skip", corrupt_retries=0)
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("damage", ENTRY * 5, ENTRY * 6, ENTRY))
        (warning,) = self.warnings
        self.assertIn(f"skipping the damage at {ENTRY * 5}", warning)

    def test_a_log_that_begins_anew_is_one_loss(self) -> None:
        """The number of lost messages is unknown, and the loss is told before any message comes."""
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

    def test_a_position_behind_the_end_is_a_loss(self) -> None:
        """The log was cut or replaced below it, and the number of lost messages is unknown."""
        (loss,) = self.losses(self.batches(start=10**6))
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("jump", 10**6, 0, None))

    def test_a_log_that_ends_before_the_damage_by_now_is_a_loss(self) -> None:
        """It lost its end while the damage was looked at, and goes on being read."""
        log = self.logs[0]
        log.data[ENTRY * 99 + 3] ^= 3  # this length leads nowhere, so that the leader is asked
        describe = ModelBroker._describe

        def cut(broker: ModelBroker, *asked: Any) -> Any:
            del log.data[ENTRY * 50 :]
            return describe(broker, *asked)

        self.patch(ModelBroker, "_describe", cut)
        batches = self.batches(start=0, on_corrupt="skip", corrupt_retries=0)
        (loss,) = self.losses(batches)
        self.assertEqual((loss.kind, loss.start, loss.end, loss.bytes), ("jump", ENTRY * 99, 0, None))
        self.assertEqual(sum(len(batch.messages) for batch in batches), 99 + 50)

    def begin_anew(self, size: int = 0, **settings: str) -> None:
        """Lose the log while a stream holds what it fetched, of the last entry the first ``size`` bytes alone."""
        log = self.logs[0]
        if size:
            del log.data[99 * ENTRY + size :]
        self.the_stream = self.stream([0], **settings)
        self.run_for(1.0)
        log.start, log.data = ANEW, bytearray(encode_set([Message(b"new")]))
        self.run_for(1.0)

    def test_fetched_messages_come_before_the_loss(self) -> None:
        """The messages are sound, though their log is gone."""
        for size, count in ((0, 100), (7, 99)):
            self.begin_anew(size)
            batches = self.rest()
            ids = [message.id for batch in batches for message in batch.messages]
            self.assertEqual(ids, [*range(0, count * ENTRY, ENTRY), ANEW])
            (loss,) = self.losses(batches)
            self.assertEqual((loss.start, loss.end), (count * ENTRY, ANEW))
            self.setUp()

    def test_fetched_messages_come_before_the_error(self) -> None:
        """The stream fails only behind them, where on_out_of_range says so."""
        self.begin_anew(on_out_of_range="fail")
        messages, reading = self.read(self.the_stream)
        self.run_for(1.0)
        self.assertEqual(len(messages), 100)
        error = str(self.failureResultOf(reading, OffsetOutOfRange).value)
        self.assertIn("an unknown number of messages", error)
        self.assertIn("`logd consume --from`", error)  # that command reads so too
        self.the_stream.seek(0, ANEW)
        messages, _ = self.read(self.the_stream)
        self.run_for(1.0)
        self.assertEqual([message.id for message in messages], [ANEW])

    def rest(self) -> list[MessageBatch]:
        """Return the batches that the stream hands over now."""
        batches: list[MessageBatch] = []

        async def loop() -> None:
            async for batch in self.the_stream.batches():
                batches.append(batch)

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        return batches

    def test_fetched_bytes_come_before_the_loss(self) -> None:
        """Raw reading delivers them as reading by messages does."""
        self.begin_anew()
        chunks: list[tuple[int, int]] = []

        async def loop() -> None:
            async for chunk in self.the_stream.raw():
                chunks.append((chunk.position, chunk.next_position))

        Deferred.fromCoroutine(loop())
        self.run_for(1.0)
        self.assertEqual((chunks[0][0], chunks[-2][1]), (0, 100 * ENTRY))
        self.assertEqual(chunks[-1], (ANEW, self.logs[0].end))

    def test_raw_chunks_carry_the_jumps_before_them(self) -> None:
        """Gaps are in the bytes themselves."""
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

    def test_a_huge_gap_is_fetched_at_its_beginning_alone(self) -> None:
        """The bytes of a gap mean nothing, so the reader goes on behind it once its length is known."""
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

    def test_a_jump_is_told_after_a_seek(self) -> None:
        """The application sought before it was told; the next batch from there carries the loss."""
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

    def test_repeated_losses_are_told_as_sums(self) -> None:
        """The first is told by itself and the rest at each doubling; jumps are told one by one."""
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
