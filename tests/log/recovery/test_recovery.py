"""Tests of logd.log.recovery.recovery: starts after a crash."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.index.index_file import CHUNK
from tests.log.entries import gap, plain, timed, wrapped
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
SMALL = LogSettings(segment_bytes=50, index_bytes=1)


class TornTailTests(SynchronousTestCase):
    """Bytes behind the checkpoint."""

    def test_whole_entries_survive_any_cut(self) -> None:
        """The file may end anywhere, in an entry of any kind."""
        kinds = [ENTRY, wrapped(b"set of messages"), timed(b"value", 77), plain(b""), gap(30)]
        tail = b"".join(kinds)
        ends = [20]
        for kind in kinds:
            ends.append(ends[-1] + len(kind))
        for size in range(len(tail) + 1):
            rig = Rig()
            rig.filled(ENTRY)
            rig.kill()
            rig.data().extend(tail[:size])
            rig.open()
            log = rig.log()
            expected = max(end for end in ends if end <= 20 + size)
            self.assertEqual((log.end, log.visible_end, len(rig.data())), (expected,) * 3)
            self.assertEqual(bool(rig.reports[1:]), 20 + size != expected)

    def test_a_changed_byte_cuts_the_last_entry(self) -> None:
        """Within a gap, or a wrapper's attributes, it does not matter."""
        for kind, free in ((ENTRY, ()), (timed(b"v", 7), ()), (wrapped(b"abc"), (5,)), (gap(20), range(9, 20))):
            for at in range(len(kind)):
                rig = Rig()
                rig.filled(ENTRY)
                rig.kill()
                rig.data().extend(kind)
                rig.data()[20 + at] ^= 0x10
                rig.open()
                self.assertEqual(rig.log().end, 20 + len(kind) if at in free else 20, (kind, at))

    def test_a_large_entry_is_checked_whole(self) -> None:
        """The entry is larger than the blocks in which the segment is read."""
        large = plain(b"0123456789abcdef" * (3 << 16))
        for damaged in (False, True):
            rig = Rig()
            rig.filled(ENTRY)
            rig.kill()
            rig.data().extend(large + ENTRY)
            if damaged:
                rig.data()[20 + len(large) - 1] ^= 1
            rig.open()
            self.assertEqual(rig.log().end, 20 if damaged else 40 + len(large))

    def test_trailing_zeros_are_cut(self) -> None:
        """A file system may lengthen a file before it writes the bytes."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.kill()
        rig.data().extend(bytes(5000))
        rig.open()
        self.assertEqual(rig.log().end, 20)

    def test_ids_go_on_behind_the_sound_entries(self) -> None:
        """The segment keeps its age, by which retention goes."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.kill()
        modified = rig.files.modified(rig.path())
        rig.data().extend(b"torn")
        rig.clock.advance(100)
        rig.open()
        self.assertEqual(rig.log().segments(), [(0, 20, int(modified * 1000))])
        self.assertEqual(rig.log().append([ENTRY], 1, -1), 20)

    def test_bytes_before_the_checkpoint_are_not_read(self) -> None:
        """Damage there is found by readers, and never cut."""
        rig = Rig(LogSettings(index_bytes=1))
        log = rig.filled(ENTRY, ENTRY)
        rig.store.write_checkpoints()
        rig.threads.settle()
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.stop()
        rig.open()
        rig.data()[15] ^= 1
        rig.filled(ENTRY)
        rig.kill()
        rig.open()
        self.assertEqual(rig.log().end, 80)

    def test_a_start_after_a_clean_stop_reads_nothing(self) -> None:
        """The start writes nothing either, however large the log is."""
        rig = Rig()
        rig.filled(*[plain(bytes(1000))] * 500)
        rig.stop()
        rig.files.bytes_read = 0
        before = rig.files.modified(f"{ROOT}/t-0/checkpoint")
        rig.clock.advance(1)
        rig.open()
        self.assertEqual(rig.log().end, 1009 * 500)
        self.assertLess(rig.files.bytes_read, 20_000)
        self.assertEqual(rig.files.modified(f"{ROOT}/t-0/checkpoint"), before)
        self.assertEqual(rig.reports, [])

    def test_a_recovery_leaves_a_checkpoint(self) -> None:
        """A broker that crashes again and again scans once."""
        rig = Rig()
        rig.filled(*[plain(bytes(1000))] * 500)
        rig.kill()
        rig.open()
        rig.kill()
        rig.files.bytes_read = 0
        rig.open()
        self.assertLess(rig.files.bytes_read, 2_000_000)  # the index, which was only in memory
        self.assertEqual(rig.log().end, 1009 * 500)

    def test_empty_logs_cost_no_syncs(self) -> None:
        """There may be thousands of logs that nothing was ever written to."""
        rig = Rig()
        for partition in range(3):
            rig.store.create("t", partition)
        rig.stop()
        rig.files.sites.clear()
        rig.open()
        self.assertEqual(rig.files.sites, {"data in store.meta.read_or_make_meta", "directory in store.log_store.open"})
        self.assertEqual(len(rig.store.logs()), 3)


class MissingPartsTests(SynchronousTestCase):
    """Files that are short, missing or foreign."""

    def rig(self) -> Rig:
        """Return segments 0-60, 60-120, 120-160 with a checkpoint at 160, of a killed broker."""
        rig = Rig(SMALL)
        rig.filled(*[ENTRY] * 8)
        rig.store.write_checkpoints()
        rig.threads.settle()
        rig.kill()
        return rig

    def test_unflushed_segments_behind_a_tear_go(self) -> None:
        """No sync reached them, and their positions are not continuous."""
        rig = Rig(SMALL)
        log = rig.filled(ENTRY, ENTRY)
        for _ in range(6):
            log.append([ENTRY], 1, -1)
        rig.kill()
        del rig.data(60)[30:]
        rig.open()
        self.assertEqual(rig.log().end, 80)
        self.assertNotIn(rig.path(120).rpartition("/")[2], " ".join(rig.files.list(f"{ROOT}/t-0")))

    def test_the_mark_replaces_a_missing_checkpoint(self) -> None:
        """The mark vouches for flushed bytes, so damage there cuts nothing."""
        rig = self.rig()
        rig.files.remove(f"{ROOT}/t-0/checkpoint")
        rig.data(0)[15] ^= 1
        rig.open()
        self.assertEqual((rig.log().start, rig.log().end), (0, 160))
        self.assertIn("checkpoint of /data/t-0 is missing", rig.reports[0])
        self.assertIn("from the mark at 160 on", rig.reports[0])

    def test_an_unvouched_log_is_checked_whole(self) -> None:
        """Segments behind damage are put aside, not removed."""
        rig = self.rig()
        rig.files.remove(f"{ROOT}/t-0/checkpoint")
        rig.files.remove(f"{ROOT}/t-0/mark")
        rig.data(60)[5] ^= 1
        rig.open()
        self.assertEqual(rig.log().end, 60)
        self.assertTrue(rig.reports[0].endswith("all of it is checked"), rig.reports)
        self.assertIn("00000000000000000120.log.dropped", rig.files.list(f"{ROOT}/t-0"))

    def test_a_damaged_checkpoint_counts_as_missing(self) -> None:
        """The report tells the two apart."""
        rig = self.rig()
        rig.files._inode(f"{ROOT}/t-0/checkpoint").data[20] ^= 1
        rig.open()
        self.assertEqual(rig.log().end, 160)
        self.assertIn("is damaged", rig.reports[0])

    def test_excess_bytes_are_cut(self) -> None:
        """Positions of the excess are those of the next segment."""
        rig = self.rig()
        rig.data(0).extend(b"more")
        rig.open()
        self.assertEqual(len(rig.data(0)), 60)
        self.assertEqual(rig.content(rig.log()), ENTRY * 8)

    def test_foreign_files_are_reported_and_kept(self) -> None:
        """Leftovers of logd itself are removed."""
        rig = self.rig()
        for name in (
            "notes.txt",
            "t-0/notes.txt",
            "t-0/123.log",
            "t-0/x.index",
            "t-0/checkpoint.tmp",
            "topics.json.tmp",
        ):
            rig.files.open(f"{ROOT}/{name}", create=True).close()
        deleted = "0a1b2c3d-0000-4000-8000-00000000abcd.deleted"
        for name in ("lost+found", "no number-", "x-01", "-3", "gone.deleted", deleted):
            rig.files.make_directory(f"{ROOT}/{name}")
        rig.open()
        self.assertEqual([(log.topic, log.partition) for log in rig.store.logs()], [("t", 0)])
        kept = [
            name
            for name in (
                "notes.txt",
                "t-0/notes.txt",
                "t-0/123.log",
                "t-0/x.index",
                "lost+found",
                "no number-",
                "x-01",
                "-3",
                "gone.deleted",
            )
            if rig.files.exists(f"{ROOT}/{name}") and any(f"{ROOT}/{name} " in report for report in rig.reports)
        ]
        self.assertEqual(len(kept), 9)
        self.assertNotIn("checkpoint.tmp", rig.files.list(f"{ROOT}/t-0"))
        self.assertEqual({deleted, "topics.json.tmp"} & set(rig.files.list(ROOT)), set())

    def test_an_unreadable_folder_costs_one_partition(self) -> None:
        """The partition is offline with the reason, and the others serve."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.log("u").append([ENTRY], 1, -1)
        rig.stop()
        rig.files.errors[f"list {ROOT}/t-0"] = [OSError(errno.EIO, "bad sector")] * 2
        rig.open()
        self.assertIn("bad sector", str(rig.log("t").offline))
        self.assertEqual(rig.content(rig.log("u")), ENTRY)


class IndexTests(SynchronousTestCase):
    """Indexes across starts."""

    def test_the_last_segments_index_is_made_again(self) -> None:
        """The start scans the segment for it."""
        rig = Rig(LogSettings(index_bytes=1))
        rig.filled(ENTRY, ENTRY, ENTRY)
        rig.stop()
        rig.files.remove(f"{ROOT}/t-0/00000000000000000000.index")
        rig.open()
        self.assertTrue(rig.log().is_boundary_known(20))

    def test_a_small_log_is_not_reported_to_have_no_index(self) -> None:
        """The index is written in chunks: a broker that is killed while idle has left none, and nothing is wrong."""
        rig = Rig(LogSettings(index_bytes=1))
        rig.filled(ENTRY, ENTRY, ENTRY)
        rig.store.write_checkpoints()
        rig.threads.settle()
        self.assertFalse(rig.files.exists(f"{ROOT}/t-0/00000000000000000000.index"))
        rig.kill()
        rig.open()
        self.assertTrue(rig.log().is_boundary_known(20))
        self.assertEqual(rig.reports, [])

    def test_an_index_that_should_be_there_is_reported(self) -> None:
        """The log is so large that a chunk was full, however it was appended."""
        rig = Rig(LogSettings(index_bytes=1, message_bytes=len(ENTRY), batch_bytes=61))
        rig.filled(*[ENTRY] * (CHUNK * 62 // len(ENTRY) + 1))
        rig.stop()
        path = f"{ROOT}/t-0/00000000000000000000.index"
        rig.files.remove(path)
        rig.open()
        self.assertEqual(rig.log().find_boundary(20 * 1000 + 5), 20 * 1000)
        self.assertEqual(rig.reports, [f"{path} is missing: it is rebuilt"])

    def test_a_closed_segments_index_is_made_when_needed(self) -> None:
        """The new index keeps the segment's time, and is found the next time."""
        for damage in ("missing", "wrong"):
            rig = Rig(SMALL)
            log = rig.filled(*[ENTRY] * 8)
            path = f"{ROOT}/t-0/00000000000000000060.index"
            if damage == "missing":
                rig.files.remove(path)
            else:
                rig.files._inode(path).data[30] ^= 1
            self.assertEqual(log.find_boundary(85), 80)
            rig.files.bytes_read = 0
            self.assertEqual(log.find_boundary(85), 80)
            self.assertLess(rig.files.bytes_read, 50_000)
            self.assertEqual(log.position_at_time(int(rig.clock.seconds() * 1000)), 0)

    def test_an_index_is_believed_up_to_the_checkpoint(self) -> None:
        """The index may have boundaries in bytes that a recovery cut."""
        rig = Rig(SMALL)
        rig.filled(*[ENTRY] * 4)  # the index of segment 0 is complete, segment 60 has one entry
        rig.kill()
        rig.files.remove(f"{ROOT}/t-0/mark")  # so that nothing vouches for the bytes taken away
        rig.files.remove(rig.path(60))
        del rig.data(0)[25:]
        rig.open()
        log = rig.filled(plain(bytes(3)), plain(bytes(3)))
        self.assertEqual([log.find_boundary(offset) for offset in range(20, 44)], [20] * 12 + [32] * 12)

    def test_a_cut_index_does_not_come_back(self) -> None:
        """A loss of power may come before the index is written again."""
        rig = Rig(SMALL)
        rig.filled(*[ENTRY] * 4)
        inode = rig.files._inode(f"{ROOT}/t-0/00000000000000000000.index")
        inode.sync()
        rig.kill()
        rig.files.remove(f"{ROOT}/t-0/mark")
        rig.files.remove(rig.path(60))
        del rig.data(0)[25:]
        rig.open()
        self.assertLess(len(inode.disk), 40)

    def test_a_full_disk_costs_the_index_only(self) -> None:
        """Appends go on, and the index is rebuilt when it is needed."""
        rig = Rig(SMALL)
        log = rig.filled(*[ENTRY] * 3)
        rig.files.errors[f"open {ROOT}/t-0/00000000000000000000.index"] = [OSError(errno.ENOSPC, "full")]
        log.append([ENTRY], 1, -1)  # rolls, and so the index of segment 0 should be written
        rig.threads.settle()
        self.assertFalse(rig.files.exists(f"{ROOT}/t-0/00000000000000000000.index"))
        self.assertEqual([log.find_boundary(offset) for offset in (0, 25, 59, 61)], [0, 20, 40, 60])


class FailingTests(SynchronousTestCase):
    """A disk that fails during a recovery."""

    def test_a_failed_start_leaves_no_file_open(self) -> None:
        """A new segment was made, and its name could not be synced."""
        rig = Rig()
        rig.files.make_directory(f"{ROOT}/t-0")
        before = rig.files.open_handles
        rig.files.errors[f"sync_directory {ROOT}/t-0"] = [OSError(errno.EIO, "bad sector")]
        self.assertIsNotNone(rig.log().offline)
        self.assertEqual(rig.files.open_handles, before)
