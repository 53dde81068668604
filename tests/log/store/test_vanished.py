"""Tests of segment files that vanish, or are cut short, under a running broker: an error, never a short answer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import PartitionOffline, UnknownError
from logd.log.disk.local_files import LocalFiles
from logd.log.store.file_watch import FileWatch
from tests.log.entries import plain
from tests.log.rig import Listener, Rig

ENTRY = plain(b"eleven more")
SMALL = LogSettings(segment_bytes=50, index_bytes=1)


class ReadTests(SynchronousTestCase):
    """Readers of such files."""

    def test_a_missing_segment_is_an_error(self) -> None:
        """The segment is named, and reported once; the other segments are served."""
        rig = Rig(SMALL)
        log = rig.filled(*[ENTRY] * 8)
        rig.files.remove(rig.path(60))
        for offset in (60, 80, 60):
            error = self.assertRaises(UnknownError, log.read, offset, 100)
            self.assertIn(rig.path(60), str(error))
        self.assertEqual(len([text for text in rig.reports if rig.path(60) in text]), 1)
        for offset, count in ((0, 60), (120, 40)):
            found = log.read(offset, 1000)
            assert found is not None
            self.assertEqual(found.count, count)
            found.close()

    def test_a_short_segment_is_an_error(self) -> None:
        """Connections of readers would end again and again otherwise."""
        rig = Rig(SMALL)
        log = rig.filled(*[ENTRY] * 8)
        del rig.data(60)[50:]
        error = self.assertRaises(UnknownError, log.read, 60, 1000)
        self.assertIn("the file has 50 bytes, though 60 were written", str(error))
        self.assertEqual(rig.files.open_handles, 2)  # the last segment's, and the lock

    def test_a_lookup_in_a_missing_segment_fails(self) -> None:
        """The answer must not look as if retention had removed the segment."""
        rig = Rig(SMALL)
        log = rig.filled(*[ENTRY] * 8)
        rig.files.remove(rig.path(60))
        rig.files.remove(rig.path(60).replace(".log", ".index"))
        for look in (lambda: log.find_boundary(85), lambda: log.position_at_time(1 << 50)):
            self.assertIn(rig.path(60), str(self.assertRaises(UnknownError, look)))

    def test_a_local_file_notices_its_removal(self) -> None:
        """A file notices as well that it has become shorter."""
        path = self.mktemp()
        file = LocalFiles().open(path, create=True)
        self.addCleanup(file.close)
        file.append([b"12345"])
        file.require(5)
        self.assertIn("has 5 bytes, though 6", str(self.assertRaises(OSError, file.require, 6)))
        LocalFiles().remove(path)
        self.assertEqual(self.assertRaises(FileNotFoundError, file.require, 0).filename, path)


class AppendTests(SynchronousTestCase):
    """A log whose last segment is removed."""

    def test_appends_to_a_removed_file_are_not_acknowledged(self) -> None:
        """The next start would not find them; the partition goes offline."""
        rig = Rig(SMALL)
        log = rig.filled(ENTRY)
        rig.files.remove(rig.path(0))
        log.append([ENTRY], 1, -1)
        listener = Listener()
        log.wait_visible(40, listener)
        rig.threads.settle()
        self.assertIn(f"{rig.path(0)} was removed while the broker wrote to it", str(log.offline))
        self.assertIsInstance(listener.calls[0], PartitionOffline)

    def test_nothing_is_appended_to_a_file_of_another_length(self) -> None:
        """The bytes would lie at another place than the id that is acknowledged, and be cut off at the next start."""
        for damaged in (ENTRY[:15], ENTRY + b"more"):
            rig = Rig(SMALL)
            log = rig.filled(ENTRY)
            self.assertTrue(log.close_idle())
            rig.data(0)[:] = damaged
            self.assertRaises(PartitionOffline, log.append, [ENTRY], 1, -1)
            self.assertIn(f"{rig.path(0)}: the file has {len(damaged)} bytes, though 20 were written", str(log.offline))
            self.assertEqual(bytes(rig.data(0)), damaged)
            self.assertEqual(rig.files.open_handles, 1)  # the lock


class FileWatchTests(SynchronousTestCase):
    """The regular look at all files."""

    def setUp(self) -> None:
        """Fill two partitions, one of them in three segments, and open all files."""
        self.rig = Rig(SMALL)
        self.log = self.rig.filled(*[ENTRY] * 8)
        self.rig.log("u").append([ENTRY], 1, -1)
        self.rig.threads.settle()
        self.rig.content(self.log)
        self.rig.reports.clear()
        self.watch = FileWatch(self.rig.files, self.rig.threads, self.rig.store.logs)

    def look(self) -> None:
        """Look once, and let it end."""
        self.watch.look()
        self.rig.threads.settle()

    def test_a_look_at_whole_files_reports_nothing(self) -> None:
        """Looks are repeated for as long as the broker runs."""
        self.look()
        self.assertEqual((self.log.loss, self.rig.reports), ("", []))

    def test_missing_bytes_are_reported_once(self) -> None:
        """Open files would hide them; once put back, they are forgotten."""
        content = bytes(self.rig.data(60))
        self.rig.files.remove(self.rig.path(60))
        for _ in range(2):
            self.look()
        self.assertEqual(self.log.loss, f"{self.rig.path(60)} is missing: bytes 60 to 120 are lost")
        self.assertEqual((len(self.rig.reports), self.log.offline), (1, None))
        self.assertIn("/data/t-0 has lost what was flushed", self.rig.reports[0])
        file = self.rig.files.open(self.rig.path(60), create=True)
        file.append([content])
        file.close()
        self.look()
        self.assertEqual(self.log.loss, "")
        del self.rig.data(0)[30:]
        self.look()
        self.assertIn("bytes 30 to 60 are lost", self.log.loss)

    def test_a_missing_last_segment_takes_it_offline(self) -> None:
        """Later appends would go into a file without a name."""
        self.rig.files.remove(self.rig.path(120))
        self.look()
        self.assertIn(f"{self.rig.path(120)} was removed", str(self.log.offline))

    def test_expired_segments_are_no_loss(self) -> None:
        """Retention or a deletion removes them during the look."""
        self.watch.look()
        self.watch.look()
        self.log.configure(LogSettings(segment_bytes=50, retention_bytes=0, retention_ms=-1))
        self.log.expire()
        self.rig.files.remove(self.rig.path(0))
        self.rig.files.remove(self.rig.path(60))
        self.rig.threads.settle()
        self.assertEqual((self.log.loss, self.log.offline), ("", None))
        self.watch.look()
        self.rig.store.delete("t", lambda error: None)
        self.rig.files.remove(self.rig.path(120))
        self.rig.threads.settle()
        self.assertEqual(self.log.loss, "")

    def test_an_expired_log_stays_online(self) -> None:
        """Retention removes even its last segment during the look."""
        self.watch.look()
        self.log.configure(LogSettings(segment_bytes=50, retention_ms=1))
        self.rig.clock.advance(3600)
        self.assertEqual(self.log.expire(), 3)
        self.assertEqual(self.log.start, self.log.visible_end)
        for start in (0, 60, 120):
            self.rig.files.remove(self.rig.path(start))  # as upkeep does, on its thread
        self.rig.threads.settle()
        self.assertIsNone(self.log.offline)
        self.assertEqual((self.log.loss, self.rig.reports), ("", []))
