"""Tests of logd.log.unreadable and logd.log.open_writers: bad sectors are skipped, and few files stay open."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import UnknownError
from logd.log.open_writers import OpenWriters
from logd.log.partition import PartitionLog
from logd.log.unreadable import AGAIN_AFTER, MOST
from tests.log.entries import plain
from tests.log.rig import Rig

ENTRY = plain(b"eleven more")
BAD = OSError(errno.EIO, "Input/output error")


class UnreadableTests(SynchronousTestCase):
    """A place of a log that cannot be read."""

    def setUp(self) -> None:
        """Fill a log with two segments of 60 bytes and one of 20."""
        self.rig = Rig(LogSettings(segment_bytes=50))
        self.log = self.rig.filled(*[ENTRY] * 7)

    def read(self, offset: int, count: int = 1000) -> int:
        """Return the number of bytes that a fetch gets there; -1 for an error."""
        try:
            found = self.log.read(offset, count)
        except UnknownError as error:
            self.assertIn(f"at position {offset}", str(error))
            self.assertIn("Input/output error", str(error))
            return -1
        assert found is not None
        found.close()
        return found.count

    def test_reads_go_around_a_bad_place(self) -> None:
        """Answers stop short of it, and bytes behind it are served."""
        found = self.log.read(60, 60)
        assert found is not None
        found.unreadable(25, BAD)
        found.close()
        self.assertEqual([self.read(at) for at in (0, 60, 80, 85, 86, 120)], [60, 25, 5, -1, 34, 20])
        self.assertEqual(self.read(60, 10), 10)
        self.assertIsNone(self.log.offline)

    def test_a_bad_place_is_tried_again(self) -> None:
        """The place is reported once."""
        for _ in range(3):
            self.log.cannot_read(80, BAD)
        self.assertEqual(len([text for text in self.rig.reports if "cannot be read at position 80" in text]), 1)
        self.rig.clock.advance(AGAIN_AFTER - 1)
        self.assertEqual(self.read(80), -1)
        self.rig.clock.advance(1)
        self.assertEqual(self.read(80), 40)
        self.log.cannot_read(80, BAD)
        self.assertEqual(self.read(80), -1)

    def test_the_memory_of_bad_places_is_bounded(self) -> None:
        """The latest ones are kept."""
        for at in range(MOST + 5):
            self.log.cannot_read(at, BAD)
        self.assertEqual(self.read(4), 1)
        self.assertEqual(self.read(5), -1)
        self.assertEqual(self.read(MOST + 4), -1)


class OpenWritersTests(SynchronousTestCase):
    """Open files of last segments."""

    def setUp(self) -> None:
        """Leave room for three."""
        self.rig = Rig()
        self.rig.stop()
        self.rig.limits = {"open_writers_limit": 3}
        self.rig.open()
        self.before = self.rig.files.open_handles

    def open_now(self) -> int:
        """Return the number of segments that are open."""
        return self.rig.files.open_handles - self.before

    def logs(self, count: int) -> list[PartitionLog]:
        """Return partitions of one topic."""
        return [self.rig.log("t", number) for number in range(count)]

    def test_idle_segments_are_closed(self) -> None:
        """An append opens its segment, and others are closed for it."""
        logs = self.logs(10)
        self.assertEqual(self.open_now(), 0)
        for turn in range(3):
            for log in logs:
                self.assertEqual(log.append([ENTRY], 1, -1), turn * 20)
                self.rig.threads.settle()
                self.assertLessEqual(self.open_now(), 3)
        self.assertEqual([log.visible_end for log in logs], [60] * 10)
        for log in logs:
            found = log.read(0, 100)
            assert found is not None
            found.close()
        self.assertEqual(self.open_now(), 3)

    def test_unflushed_segments_stay_open(self) -> None:
        """However many they are; after the flush they are closed as others open."""
        logs = self.logs(10)
        for log in logs:
            log.append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 10)
        self.rig.threads.settle()
        self.assertEqual([log.visible_end for log in logs], [20] * 10)
        self.rig.log("u").append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)

    def test_deleted_partitions_do_not_count(self) -> None:
        """The places of deleted partitions are free for others."""
        for log in self.logs(3):
            log.append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)
        self.rig.store.delete("t", lambda error: None)
        self.rig.threads.settle()
        self.assertEqual(self.open_now(), 0)
        for number in range(3):
            self.rig.log("u", number).append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)

    def test_an_append_looks_at_few_segments(self) -> None:
        """Thousands of busy ones cost it nothing."""

        class Busy:
            looks = 0

            def close_idle(self) -> bool:
                Busy.looks += 1
                return False

        writers = OpenWriters(10)
        for _ in range(1000):
            writers.opened(Busy())
        self.assertEqual(len(writers), 1000)
        self.assertLess(Busy.looks, 20_000)
