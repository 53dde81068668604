"""Tests of batches among the entries of a log: the index and its times, boundaries, rebuilds, recovery and gaps."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.disk.names import index_name, join, segment_name
from logd.protocol import loops
from tests.log.damaged_segments import DamagedSegment
from tests.log.entries import batch, gap, plain, record
from tests.log.rig import BEGIN, Rig

NOW = int(BEGIN * 1000)


def entries(count: int = 30) -> list[bytes]:
    """Return batches of three messages and plain entries by turns; each batch's time is a second after the last."""
    found = []
    for number in range(count):
        records = [record(b"%d" % each, each) for each in range(3)]
        found.append(batch(*records, time=NOW + 1000 * number) if number % 2 == 0 else plain(b"%d" % number))
    return found


class BatchesInALogTests(SynchronousTestCase):
    """A log of several segments, with an index of few boundaries."""

    def setUp(self) -> None:
        """Append the entries one by one, and flush them."""
        self.rig = Rig(LogSettings(segment_bytes=500, index_bytes=200))
        self.entries = entries()
        self.starts = []
        for each in self.entries:
            checked = loops.check_set(each, 1000)
            self.starts.append(self.rig.log().append([each], checked.messages, checked.newest))
        self.rig.threads.settle()

    def check_lookups(self) -> None:
        """Check each position and each time of a batch, in the log as it is now."""
        log = self.rig.log()
        self.assertEqual(log.visible_end, sum(map(len, self.entries)))
        for start, each in zip(self.starts, self.entries, strict=True):
            for position in range(start, start + len(each)):
                self.assertEqual(log.find_boundary(position), start)
        for number in range(0, len(self.entries), 2):
            for earlier in (0, 999):
                found = log.position_at_time(NOW + 1000 * number - earlier)
                self.assertLessEqual(found, self.starts[number], (number, earlier))
        self.assertEqual(log.position_at_time(NOW + 1000 * (len(self.entries) + 1)), log.visible_end)

    def test_a_batch_is_one_entry_with_its_newest_time(self) -> None:
        """Positions inside it are of it, and a time finds it."""
        self.assertGreater(len(self.rig.log().segments()), 2)
        self.check_lookups()

    def test_a_time_finds_the_batch_itself(self) -> None:
        """With a boundary at each entry, no earlier batch is found."""
        rig = Rig(LogSettings(index_bytes=1))
        ends = [0]
        for number in range(6):
            rig.clock.advance(1)
            each = batch(record(b"x"), time=NOW + 5000 + 1000 * number)
            rig.log().append([each], 1, NOW + 5000 + 1000 * number)
            ends.append(ends[-1] + len(each))
        rig.threads.settle()
        for number in range(6):
            self.assertEqual(rig.log().position_at_time(NOW + 4001 + 1000 * number), ends[number])

    def test_a_rebuilt_index_knows_batches(self) -> None:
        """Without its index files the log finds the same."""
        for power_lost in (False, True):
            folder = self.rig.log().folder
            self.rig.kill(power_lost)
            for name in self.rig.files.list(folder):
                if name.endswith(".index"):
                    self.rig.files.remove(join(folder, name))
            self.rig.open()
            self.check_lookups()
            self.assertIn(index_name(0), self.rig.files.list(folder))

    def test_a_torn_batch_at_the_end_is_cut(self) -> None:
        """Recovery keeps what is sound, at every length that is left of the last batch."""
        log = self.rig.log()
        last = batch(record(b"torn"), record(b"tail", 1), time=NOW)
        end = log.append([last], 2, NOW)
        name = join(log.folder, segment_name(log.last_segment_start))
        whole = bytes(self.rig.files._inode(name).data)
        for size in range(len(last)):
            self.rig.kill()
            self.rig.files._inode(name).data[:] = whole[: len(whole) - len(last) + size]
            self.rig.open()
            self.assertEqual(self.rig.log().end, end, size)
        self.check_lookups()

    def test_the_checkpoint_vouches_for_batches(self) -> None:
        """After a clean stop none of them is checked again: one damaged meanwhile changes no position."""
        self.rig.stop()
        self.rig.files._inode(join("/data/t-0", segment_name(0))).data[40] ^= 1
        self.rig.open()
        self.check_lookups()


class DamagedBatchTests(SynchronousTestCase):
    """A damaged batch between others costs its own messages alone."""

    def test_any_flipped_bit_makes_a_gap_of_its_size(self) -> None:
        """In N, magic, check, head, checksum and records alike; the batch behind it keeps its place."""
        sound = batch(record(b"one"), record(b"two", 1), time=NOW)
        for at in range(len(sound)):
            for bit in (0, 7):
                segment = DamagedSegment([plain(b"a"), sound, sound, plain(b"b")])
                segment.data[segment.ends[1] + at] ^= 1 << bit
                segment.settle()
                segment.repair()
                self.assertEqual(segment.harm({1}), "", (at, bit))
                self.assertEqual(segment.found()[segment.ends[1]][:9], gap(len(sound))[:9], (at, bit))

    def test_a_lost_length_of_a_padded_batch_is_found(self) -> None:
        """Compaction leaves more pad than a producer sends; then the batch's own size is no evidence, the rest is."""
        padded = batch(record(b"kept", 3), messages=1, pad=40)
        for seed in range(50):
            segment = DamagedSegment([plain(b"a"), padded, batch(record(b"next")), plain(b"b")])
            segment.damage_length(1, Random(seed))
            segment.repair()
            self.assertEqual(segment.harm({1}), "", seed)
