"""Tests of logd.log.unreadable and logd.log.open_writers: bad sectors are walked round, and few files stay open."""

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
        """A log of two segments of 60 bytes and one of 20."""
        self.rig = Rig(LogSettings(segment_bytes=50))
        self.log = self.rig.filled(*[ENTRY] * 7)

    def read(self, offset: int, count: int = 1000) -> int:
        """How many bytes a fetch there gets; -1 for an error."""
        try:
            found = self.log.read(offset, count)
        except UnknownError as error:
            self.assertIn(f"at position {offset}", str(error))
            self.assertIn("Input/output error", str(error))
            return -1
        assert found is not None
        found.close()
        return found.count

    def test_around_it(self) -> None:
        """Answers stop short of it, there is an error at it, and what lies behind it is served."""
        found = self.log.read(60, 60)
        assert found is not None
        found.unreadable(25, BAD)
        found.close()
        self.assertEqual([self.read(at) for at in (0, 60, 80, 85, 86, 120)], [60, 25, 5, -1, 34, 20])
        self.assertEqual(self.read(60, 10), 10)
        self.assertIsNone(self.log.offline)

    def test_for_a_while(self) -> None:
        """After some time the disk is asked again; it is reported once."""
        for _ in range(3):
            self.log.cannot_read(80, BAD)
        self.assertEqual(len([text for text in self.rig.reports if "cannot be read at position 80" in text]), 1)
        self.rig.clock.advance(AGAIN_AFTER - 1)
        self.assertEqual(self.read(80), -1)
        self.rig.clock.advance(1)
        self.assertEqual(self.read(80), 40)
        self.log.cannot_read(80, BAD)
        self.assertEqual(self.read(80), -1)

    def test_many(self) -> None:
        """A bounded number is remembered, the latest."""
        for at in range(MOST + 5):
            self.log.cannot_read(at, BAD)
        self.assertEqual(self.read(4), 1)
        self.assertEqual(self.read(5), -1)
        self.assertEqual(self.read(MOST + 4), -1)


class OpenWritersTests(SynchronousTestCase):
    """Last segments that are open."""

    def setUp(self) -> None:
        """Room for three."""
        self.rig = Rig()
        self.rig.stop()
        self.rig.limits = {"open_writers_limit": 3}
        self.rig.open()
        self.before = self.rig.files.open_handles

    def open_now(self) -> int:
        """How many segments are open."""
        return self.rig.files.open_handles - self.before

    def logs(self, count: int) -> list[PartitionLog]:
        """Partitions of one topic."""
        return [self.rig.log("t", number) for number in range(count)]

    def test_idle_ones_are_closed(self) -> None:
        """A partition is opened by an append, and closed when others are opened and nobody appends to it any more."""
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

    def test_busy_ones_stay(self) -> None:
        """What waits for the disk stays open, however many that are; then they are closed as others open."""
        logs = self.logs(10)
        for log in logs:
            log.append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 10)
        self.rig.threads.settle()
        self.assertEqual([log.visible_end for log in logs], [20] * 10)
        self.rig.log("u").append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)

    def test_a_deleted_topic(self) -> None:
        """Partitions that are gone do not count."""
        for log in self.logs(3):
            log.append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)
        self.rig.store.delete("t", lambda error: None)
        self.rig.threads.settle()
        self.assertEqual(self.open_now(), 0)
        for number in range(3):
            self.rig.log("u", number).append([ENTRY], 1, -1)
        self.assertEqual(self.open_now(), 3)

    def test_looks_are_bounded(self) -> None:
        """With thousands of busy ones an append does not look at all of them."""

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
