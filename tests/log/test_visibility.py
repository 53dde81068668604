"""Tests of a log whose flushed end is ahead of its visible end, as on a leader whose followers are behind."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import OffsetOutOfRange
from logd.leadership import PartitionLeadership
from logd.log.index.index_search import last_boundary
from logd.log.legacy_offsets import LATEST
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark
from logd.log.store.file_watch import FileWatch
from tests.log.entries import plain
from tests.log.rig import Listener, Rig

ENTRY = plain(bytes(11))  # 20 bytes
FOLDER = "/data/t-0"
TWO = PartitionLeadership(0, 1, (0, 1), (0, 1))


class TwoEndsTests(SynchronousTestCase):
    """A log with 60 flushed bytes, of which 40 are visible: a replica has not acknowledged the last 20."""

    def setUp(self) -> None:
        """Flush 40 bytes alone, then 20 with another in-sync replica."""
        self.rig = Rig(LogSettings(segment_bytes=30, retention_ms=1000))
        self.log = self.rig.filled(ENTRY, ENTRY)
        self.log.leadership = TWO
        self.log.show_up_to(40)
        self.append()

    def append(self) -> PartitionLog:
        """Append an entry, and flush it."""
        self.log.append([ENTRY], 1, -1)
        self.rig.threads.settle()
        return self.log

    def test_a_flush_moves_the_flushed_end_alone(self) -> None:
        """Nothing waits for the disk after it."""
        self.assertEqual((self.log.visible_end, self.log.flushed_end, self.log.end), (40, 60, 60))
        self.assertEqual((self.log.unflushed_bytes, self.rig.store.unflushed_bytes), (0, 0))

    def test_readers_see_visible_bytes_alone(self) -> None:
        """Waits and lookups end at the visible end, too."""
        listener = Listener()
        wait = self.log.wait_visible(60, listener)
        self.append()
        self.assertEqual(listener.calls, [])
        self.assertEqual(self.rig.content(self.log), ENTRY * 2)
        self.assertEqual(self.log.offsets_before(LATEST, 1), [40])
        self.assertIsNone(self.log.read(50, 100))
        self.assertRaises(OffsetOutOfRange, self.log.find_boundary, 50)
        self.assertEqual(self.log.position_at_time(1 << 60), 40)
        assert wait is not None
        wait.cancel()

    def test_the_disk_follows_the_flushed_end(self) -> None:
        """The mark, the checkpoint and the closing of files go by it."""
        self.assertEqual(read_mark(self.rig.files, FOLDER), 60)
        self.rig.store.write_checkpoints()
        self.rig.threads.settle()
        self.assertEqual(read_checkpoint(self.rig.files, FOLDER), Checkpoint(0, 60))
        self.assertTrue(self.log.close_idle())

    def test_nothing_is_synced_twice(self) -> None:
        """Bytes that are flushed and not visible are in no later sync."""
        self.log.append([ENTRY], 1, -1)  # rolls a segment whose bytes are all flushed
        sync = self.log.begin_sync()
        self.assertEqual([each.file.path for each in sync.files], [self.rig.path(40)])
        self.log.end_sync(sync, None)
        self.assertEqual(self.log.flushed_end, 80)

    def test_a_clean_stop_keeps_the_flushed_end(self) -> None:
        """The index and the checkpoint reach up to it."""
        self.rig.stop()
        self.assertEqual(last_boundary(self.rig.files, self.rig.path(40).replace(".log", ".index"), 40).position, 60)
        self.rig.open()
        self.assertEqual((self.rig.log().flushed_end, self.rig.reports), (60, []))

    def test_retention_stays_behind_the_visible_end(self) -> None:
        """Readers have not seen the rest."""
        self.append()
        self.assertEqual([start for start, _, _ in self.log.segments()], [0, 40])
        self.log.visible_end = 20
        self.rig.clock.advance(100)
        self.rig.store.expire()
        self.assertEqual(self.log.start, 0)
        self.log.visible_end = 40
        self.rig.store.expire()
        self.assertEqual((self.log.start, self.log.visible_end), (40, 40))

    def test_lost_bytes_show_before_they_are_visible(self) -> None:
        """The bytes are flushed, so the file has to have them."""
        del self.rig.data(40)[:]
        FileWatch(self.rig.files, self.rig.threads, self.rig.store.logs).look()
        self.rig.threads.settle()
        self.assertIn("bytes 40 to 60", self.log.loss)
