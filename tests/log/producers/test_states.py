"""Tests of logd.log.producers.states."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.log.producers.states import (
    REMEMBERED,
    OldProducerEpoch,
    ProducerStates,
    SequencedBatch,
    SequenceGap,
    SequenceTooOld,
    StillAppending,
    UnreadBatches,
    batches_of,
)
from logd.protocol.batch_layout import BATCH_FIELDS, BATCH_FIELDS_AT, encode_batch_entry
from tests.log.entries import plain

_LAST = (1 << 31) - 1


def batch(sequence: int, messages: int = 10, epoch: int = 0, producer: int = 7) -> SequencedBatch:
    """Return the place of a batch."""
    return SequencedBatch(producer, epoch, sequence, messages)


def entry_of(place: SequencedBatch) -> bytes:
    """Return a batch, an entry; nothing in it is right but the head's fields."""
    entry = bytearray(encode_batch_entry(b"records", place.messages, 1, 2))
    fields = BATCH_FIELDS.pack(0, place.messages - 1, 1, 2, place.producer, place.epoch, place.sequence, place.messages)
    entry[BATCH_FIELDS_AT : BATCH_FIELDS_AT + len(fields)] = fields
    return bytes(entry)


class FindTests(SynchronousTestCase):
    """``ProducerStates.find``."""

    def setUp(self) -> None:
        """Store the batches 0, 10 ... 60."""
        self.states = ProducerStates()
        for number in range(7):
            self.states.found(batch(10 * number), 100 * (number + 1), 1)

    def test_the_next_batch_and_those_of_others_are_to_be_appended(self) -> None:
        """A producer that is not known may begin anywhere, a new epoch at 0."""
        for each in (batch(70), batch(70, 1), batch(1234, producer=8), batch(0, epoch=1)):
            self.assertIsNone(self.states.find(each))

    def test_a_batch_that_is_sent_again_is_found(self) -> None:
        """The last five are remembered; of an older one it is known only that it is old."""
        for number in range(7 - REMEMBERED, 7):
            self.assertEqual(self.states.find(batch(10 * number)), 100 * (number + 1))
        with self.assertRaises(SequenceTooOld):
            self.states.find(batch(10))

    def test_a_new_epoch_that_is_refused_behind_a_batch_of_the_former_one(self) -> None:
        """Both came in one read, and the disk was full in between: what is stored is found, and the former goes on."""
        self.states.begin(batch(70), 1)
        self.states.begin(batch(0, epoch=1), 1)
        self.states.appended(batch(70), 800)
        self.states.not_appended(batch(0, epoch=1))
        self.assertEqual(self.states.find(batch(70)), 800)
        self.assertIsNone(self.states.find(batch(80)))
        self.assertIsNone(self.states.find(batch(0, epoch=1)))

    def test_where_heads_were_not_read_a_producer_has_to_ask_again(self) -> None:
        """Unless it was heard of behind that, or sends what is known to be stored, or is new."""
        self.states.missed(710, 800, 5)
        self.states.missed(850, 900, 6)
        self.assertEqual(self.states.hole, (710, 900))
        self.states.found(batch(30, producer=8), 1000, 1)
        for each in (batch(70), batch(90), batch(50, 1), batch(10, epoch=1), batch(5, producer=9)):
            with self.assertRaises(UnreadBatches):
                self.states.find(each)
        self.assertEqual(self.states.find(batch(60)), 700)
        for each in (batch(40, producer=8), batch(0, producer=9), batch(0, epoch=1)):
            self.assertIsNone(self.states.find(each))
        with self.assertRaises(SequenceGap):
            self.states.find(batch(50, producer=8))
        self.states.begin(batch(0, producer=9), 1)
        self.assertIsNone(self.states.find(batch(10, producer=9)))

    def test_what_does_not_follow_is_refused(self) -> None:
        """A gap, another producer's older epoch, a new epoch in the middle, half of a batch."""
        for problem, place in (
            (SequenceGap, batch(80)),
            (SequenceGap, batch(5, epoch=1)),
            (SequenceTooOld, batch(60, 5)),
        ):
            with self.assertRaises(problem):
                self.states.find(place)
        self.states.found(batch(0, epoch=3), 900, 1)
        with self.assertRaises(OldProducerEpoch):
            self.states.find(batch(70))

    def test_what_was_never_stored_is_a_gap(self) -> None:
        """Clients take the answer that a batch is too old for a success: it has to be certain that it is stored.

        So are batches before those of a producer that was first heard of in the middle, as its first batch was
        refused; such that are being appended; and such that go on behind what is stored.
        """
        states = ProducerStates()
        states.begin(batch(10), 1)
        with self.assertRaises(SequenceGap):
            states.find(batch(0))
        states.appended(batch(10), 100)
        for place in (batch(0), batch(5), batch(15), batch(_LAST - 4)):
            with self.assertRaises(SequenceGap):
                states.find(place)
        with self.assertRaises(SequenceTooOld):
            states.find(batch(12, 8))
        with self.assertRaises(SequenceGap):
            self.states.find(batch(65))

    def test_what_lies_before_the_unbroken_run_is_a_gap(self) -> None:
        """However many batches are stored behind it: the first one was refused, or the producer was forgotten."""
        states = ProducerStates()
        for number in range(1, 2 * REMEMBERED):
            states.found(batch(10 * number), 100 * number, 1)
            with self.assertRaises(SequenceGap):
                states.find(batch(0))
        with self.assertRaises(SequenceTooOld):
            states.find(batch(10))
        states.found(batch(200), 2000, 1)
        with self.assertRaises(SequenceGap):
            states.find(batch(10))

    def test_sequences_begin_again_behind_the_last_number(self) -> None:
        """They are 31 bits."""
        states = ProducerStates()
        states.found(batch(_LAST - 4), 100, 1)
        self.assertIsNone(states.find(batch(5)))
        with self.assertRaises(SequenceGap):
            states.find(batch(6))
        states.found(batch(5), 200, 1)
        self.assertEqual(states.find(batch(_LAST - 4)), 100)

    def test_a_batch_that_is_being_appended(self) -> None:
        """It is known at once, has its place when it is appended, and is forgotten when it is refused."""
        self.states.begin(batch(70), 2)
        with self.assertRaises(StillAppending):
            self.states.find(batch(70))
        self.states.appended(batch(70), 800)
        self.assertEqual(self.states.find(batch(70)), 800)
        for number in (80, 90):
            self.states.begin(batch(number), 2)
        self.states.not_appended(batch(80))
        self.states.not_appended(batch(90))
        self.assertIsNone(self.states.find(batch(80)))

    def test_batches_that_are_refused_leave_what_was_known(self) -> None:
        """Even if there were many at once, or they began a new epoch."""
        for number in range(7, 7 + REMEMBERED):
            self.states.begin(batch(10 * number), 2)
        self.states.not_appended(batch(70))
        self.states.begin(batch(0, epoch=1), 2)
        self.states.not_appended(batch(0, epoch=1))
        for number in range(7 - REMEMBERED, 7):
            self.assertEqual(self.states.find(batch(10 * number)), 100 * (number + 1))
        self.assertIsNone(self.states.find(batch(70)))


class SnapshotTests(SynchronousTestCase):
    """``encode``, ``decode`` and ``batches_of``."""

    def test_a_snapshot_and_the_heads_behind_it_are_the_states(self) -> None:
        """Wherever the snapshot was made, and whatever else is in the log."""
        random = Random(1)
        states, log = ProducerStates(), bytearray()
        snapshots = []
        sequences = {producer: random.randrange(1 << 31) for producer in range(4)}
        for _ in range(200):
            producer, count = random.randrange(4), random.randrange(1, 30)
            if random.random() < 0.3:
                log += plain(b"x" * random.randrange(100))
            place = batch(sequences[producer], count, producer=producer)
            sequences[producer] = (sequences[producer] + count) % (1 << 31)
            log += entry_of(place)
            states.found(place, len(log), 5)
            if random.random() < 0.1:
                snapshots.append((len(log), states.encode(len(log))))
        for position, data in snapshots:
            again, at = ProducerStates.decode(data)
            self.assertEqual(at, position)
            for end, found in batches_of(bytes(log[position:]), position):
                if found is not None:
                    again.found(found, end, 5)
            self.assertEqual(again.encode(len(log)), states.encode(len(log)))

    def test_a_snapshot_leaves_out_what_lies_behind_its_position(self) -> None:
        """And what is not appended yet."""
        states = ProducerStates()
        states.found(batch(0), 100, 1)
        states.found(batch(10), 200, 1)
        states.begin(batch(20), 1)
        again, position = ProducerStates.decode(states.encode(150))
        self.assertEqual((position, again.find(batch(0)), again.find(batch(10))), (150, 100, None))

    def test_a_snapshot_has_the_former_epoch_of_a_batch_that_is_being_appended(self) -> None:
        """The batch may be refused, or lost with the broker: what is stored must be found then."""
        states = ProducerStates()
        states.found(batch(0), 100, 1)
        states.begin(batch(0, epoch=1), 1)
        again, _ = ProducerStates.decode(states.encode(100))
        self.assertEqual(again.find(batch(0)), 100)

    def test_a_damaged_snapshot_is_refused(self) -> None:
        """Each byte counts, and so does the end."""
        states = ProducerStates()
        states.found(batch(0), 100, 1)
        data = states.encode(100)
        for at in range(len(data)):
            for damaged in (data[:at], data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]):
                with self.assertRaises(ValueError):
                    ProducerStates.decode(damaged)

    def test_heads_that_are_cut_off(self) -> None:
        """The walk ends before a head that is not whole, and refuses a length that goes back."""
        data = entry_of(batch(0)) + entry_of(batch(10))
        half = len(data) // 2
        self.assertEqual([end for end, _ in batches_of(data[: half + 20], 1000)], [1000 + half])
        with self.assertRaises(ValueError):
            list(batches_of(b"\xff\xff\xff\x00" + bytes(100), 0))
