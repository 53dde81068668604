"""Tests of the flush mark, which tells bytes flushed since the checkpoint from those that a crash tore off."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.log.recovery.flush_mark import Mark, encode_mark, read_mark
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"
MARK = f"{FOLDER}/mark"


class MarkTests(SynchronousTestCase):
    """The file of the mark."""

    def test_a_mark_is_text_of_one_length(self) -> None:
        """A mark of any number can then be written over in place."""
        self.assertEqual(encode_mark(160), b"logd-mark 1 00000000000000000160 9bae58ee\n")
        self.assertEqual(len(encode_mark((1 << 63) - 1)), len(encode_mark(0)))

    def test_a_failing_mark_is_harmless(self) -> None:
        """The file is opened once for many writes, and an error may pass."""
        files = Rig().files
        mark = Mark(files, ROOT)
        files.errors["open"] = [OSError(errno.EIO, "input/output error")]
        mark.write(1)
        self.assertEqual(read_mark(files, ROOT), 0)
        mark.write(2)
        files.errors["open"] = [OSError(errno.EIO, "input/output error")]
        files.errors["write_at"] = [OSError(errno.ENOSPC, "no space")]
        mark.write(3)
        mark.write(4)
        self.assertEqual(len(files.errors.pop("open")), 1)
        self.assertEqual(read_mark(files, ROOT), 4)
        mark.close()
        mark.write(5)
        self.assertEqual(read_mark(files, ROOT), 5)

    def test_a_mark_follows_each_sync(self) -> None:
        """The mark says nothing of bytes that are not flushed."""
        rig = Rig()
        log = rig.filled(ENTRY)
        self.assertEqual(read_mark(rig.files, FOLDER), 20)
        log.append([ENTRY], 1, -1)
        rig.threads.work()  # the sync is done, though the owner does not know yet
        self.assertEqual((read_mark(rig.files, FOLDER), log.visible_end), (40, 20))
        log.append([ENTRY], 1, -1)
        self.assertEqual(read_mark(rig.files, FOLDER), 40)

    def test_a_failed_sync_leaves_the_mark(self) -> None:
        """A later mark would vouch for bytes that the disk may not have."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.files.fail_syncs = 1
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual(read_mark(rig.files, FOLDER), 20)

    def test_a_damaged_mark_counts_as_none(self) -> None:
        """Any changed byte, and any prefix, is noticed."""
        rig = Rig()
        rig.filled(ENTRY)
        data = rig.files._inode(MARK).data
        whole = bytes(data)
        for at in range(len(whole)):
            data[:] = whole
            data[at] ^= 1
            self.assertEqual(read_mark(rig.files, FOLDER), 0, at)
            data[:] = whole[:at]
            self.assertEqual(read_mark(rig.files, FOLDER), 0, at)

    def test_an_unreadable_mark_counts_as_none(self) -> None:
        """One that cannot be written does not keep messages from being flushed."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.files.errors[f"open_for_reading {MARK}"] = [OSError(errno.EIO, "bad sector")]
        self.assertEqual(read_mark(rig.files, FOLDER), 0)
        rig.files.errors[f"open {MARK}"] = [OSError(errno.EIO, "bad sector")]
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual((log.visible_end, read_mark(rig.files, FOLDER)), (40, 20))


class StartTests(SynchronousTestCase):
    """Starts that find a mark."""

    def test_flushed_damage_is_not_a_torn_tail(self) -> None:
        """Nothing is cut, so that no id is given again."""
        for at in (0, 3, 12):  # a length, a length, a payload
            rig = Rig()
            log = rig.filled(ENTRY, ENTRY, ENTRY)
            rig.kill()
            rig.data()[20 + at] ^= 1
            rig.open()
            log = rig.log()
            self.assertEqual((log.end, log.visible_end, len(rig.data())), (60, 60, 60))
            self.assertEqual(log.append([ENTRY], 1, -1), 60)

    def test_a_tail_behind_the_mark_is_cut(self) -> None:
        """The tail was never flushed."""
        rig = Rig()
        log = rig.filled(ENTRY)
        log.append([ENTRY], 1, -1)
        log.append([ENTRY], 1, -1)
        rig.kill()
        rig.data()[32] ^= 1
        rig.open()
        self.assertEqual(rig.log().end, 20)

    def test_a_killed_broker_reads_little_at_its_start(self) -> None:
        """Only bytes that no sync had reached are checked, however old the checkpoint."""
        rig = Rig()
        rig.filled(*[plain(bytes(1000))] * 3000)
        rig.kill()
        rig.files.bytes_read = 0
        rig.open()
        self.assertEqual(rig.log().end, 1009 * 3000)
        self.assertLess(rig.files.bytes_read, 2_500_000)  # 2 MiB of log that the index did not have yet

    def test_a_mark_past_the_end_shows_a_loss(self) -> None:
        """The partition is offline and nothing is cut, so that no id is given again."""
        rig = Rig()
        rig.filled(ENTRY, ENTRY, ENTRY)
        rig.kill()
        del rig.data()[45:]
        rig.open()
        self.assertIn("00000000000000000000.log has lost its end: bytes 45 to 60 are lost", str(rig.log().offline))
        self.assertEqual((len(rig.data()), read_mark(rig.files, FOLDER)), (45, 60))

    def test_a_deleted_topic_leaves_no_mark(self) -> None:
        """The last sync of the deleted topic ends while it is made anew."""
        rig = Rig()
        log = rig.filled(ENTRY)
        log.append([ENTRY], 1, -1)
        rig.store.delete("t", lambda error: None)
        self.assertEqual(len(rig.threads.works), 1)  # the sync; the removal waits for it
        rig.threads.settle()
        rig.log()
        self.assertEqual(rig.files.list(FOLDER), ["00000000000000000000.log"])
