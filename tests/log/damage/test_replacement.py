"""Tests of logd.log.damage.replacement and verified_read: a new file takes a segment's place whole, or not at all."""

from __future__ import annotations

import contextlib
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import CorruptMessage, InvalidRequest, OffsetOutOfRange
from logd.log.damage.inspection import SegmentPlace
from logd.log.damage.replacement import SegmentReplacement, check_entries
from logd.log.damage.verified_read import read_verified
from logd.log.disk.names import TEMPORARY_SUFFIX, join, segment_name
from logd.log.index.index import ActiveIndex
from logd.log.index.lookup import Snapshot
from logd.log.recovery.checkpoint import Checkpoint, write_checkpoint
from logd.log.recovery.recovery import recover_partition
from logd.log.segments import Segment, SegmentList
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from tests.log.entries import plain

FOLDER = "/data/t-0"
ENTRIES = [plain(b"message %d" % number) for number in range(6)]
#: More changes of a disk than a replacement makes.
MOST_CHANGES = 30


class ReplacementTestCase(SynchronousTestCase):
    """A log of two segments on a disk in memory; the third entry of the first one is damaged."""

    def setUp(self) -> None:
        """Make the files."""
        self.make(Random(0))

    def make(self, random: Random) -> None:
        """Make the disk and the files."""
        self.files = MemoryFiles(random)
        for folder in ("/data", FOLDER):
            self.files.make_directory(folder)
        self.files.root.sync()
        self.sound = b"".join(ENTRIES)
        self.size = len(self.sound)
        self.damage = sum(map(len, ENTRIES[:2])), sum(map(len, ENTRIES[:3]))
        harmed = bytearray(self.sound)
        harmed[self.damage[1] - 1] ^= 1
        self.harmed = bytes(harmed)
        for start, content in ((0, self.harmed), (self.size, ENTRIES[0])):
            file = self.files.open(join(FOLDER, segment_name(start)), create=True)
            file.append([content])
            file.sync_data()
            file.close()
        write_checkpoint(self.files, FOLDER, Checkpoint(0, self.size + len(ENTRIES[0])))
        self.files.sync_directory("/data")
        self.place = SegmentPlace(FOLDER, 0, self.size, True)

    @property
    def content(self) -> bytes:
        """The first segment's bytes."""
        file = self.files.open_for_reading(self.place.path)
        found: bytes = file.read_at(0, 1 << 20)
        file.close()
        return found

    def replace(self) -> None:
        """Replace the first segment as a healing replica does."""
        new = SegmentReplacement.begin(self.files, self.place, 12.0)
        begin, stop = self.damage
        while new.copy(begin):
            pass
        new.append(self.sound[begin:stop])
        while new.copy(self.size):
            pass
        new.finish()
        new.put_in_place()
        self.files.sync_directory(FOLDER)


class ReplacementTests(ReplacementTestCase):
    """SegmentReplacement."""

    def test_the_damaged_bytes_are_replaced(self) -> None:
        """The rest is copied, and the time of the segment stays."""
        self.replace()
        self.assertEqual(self.content, self.sound)
        self.assertEqual(self.files.modified(self.place.path), 12.0)
        self.assertEqual(self.files.durable(self.place.path), self.sound)

    def test_a_crash_at_any_change_leaves_the_old_bytes_or_the_new_ones(self) -> None:
        """The next start serves what is there, and removes what was not finished."""
        outcomes = set()
        for change in range(1, MOST_CHANGES):
            self.make(Random(change))
            self.files.power = change
            with contextlib.suppress(PowerLoss):
                self.replace()
            self.files.restart(power_lost=True)
            found = recover_partition(self.files, FOLDER, LogSettings(), 0.0, lambda *_, **__: None)
            found.writer.close()
            outcomes.add(self.content)
            self.assertIn(self.content, (self.harmed, self.sound), change)
            self.assertEqual([name for name in self.files.list(FOLDER) if name.endswith(TEMPORARY_SUFFIX)], [])
        self.assertEqual(outcomes, {self.harmed, self.sound})

    def test_nothing_unsound_takes_the_place(self) -> None:
        """Neither damaged entries, nor half ones, nor a file of another length."""
        begin, stop = self.damage
        right = self.sound[begin:stop]
        for wrong in (self.harmed[begin:stop], right[:-1], b"", right + right[:5]):
            new = SegmentReplacement.begin(self.files, self.place, 12.0)
            while new.copy(begin):
                pass
            self.assertRaises(CorruptMessage, new.append, wrong)
            self.assertRaises(CorruptMessage, check_entries, wrong, begin)
            self.assertRaises(CorruptMessage, new.finish)
            new.discard()
        new = SegmentReplacement.begin(self.files, self.place, 12.0)
        while new.copy(self.size):
            pass
        self.assertRaises(CorruptMessage, new.finish)
        new.finish(begin=stop)  # nobody reads what lies before the log's start
        new.discard()
        self.assertEqual(self.content, self.harmed)
        self.assertEqual([name for name in self.files.list(FOLDER) if name.endswith(TEMPORARY_SUFFIX)], [])


class VerifiedReadTests(ReplacementTestCase):
    """read_verified."""

    def read(self, position: int, length: int) -> bytes:
        """Read from the log."""
        starts = [0, self.size]
        segments = SegmentList.of([Segment(start, 0.0) for start in starts])
        index = ActiveIndex(self.files, join(FOLDER, "unused"), self.size)
        end = self.size + len(ENTRIES[0])
        return read_verified(Snapshot(self.files, FOLDER, 0, end, segments, index, 4096), position, length)

    def test_whole_sound_entries_are_read(self) -> None:
        """Up to the damage, the length, or the end of the segment."""
        begin, stop = self.damage
        self.assertEqual(self.read(0, 1 << 20), self.sound[:begin])
        self.assertEqual(self.read(0, len(ENTRIES[0]) + 3), ENTRIES[0])
        self.assertEqual(self.read(0, 0), ENTRIES[0])
        self.assertEqual(self.read(stop, 1 << 20), self.sound[stop:])
        self.assertEqual(self.read(self.size, 1 << 20), ENTRIES[0])

    def test_what_is_not_there_is_refused(self) -> None:
        """Damage, positions inside entries, and positions outside the log."""
        self.assertRaises(CorruptMessage, self.read, self.damage[0], 100)
        self.assertRaises(InvalidRequest, self.read, self.damage[1] + 1, 100)
        self.assertRaises(OffsetOutOfRange, self.read, 1 << 40, 100)
