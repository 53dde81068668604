"""Tests of logd.log.retention_rule and checkpoints_and_expiry: expired segments, checkpoints, order of removal."""

from __future__ import annotations

import contextlib
import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import OffsetOutOfRange
from logd.log import checkpoints_and_expiry
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark
from logd.testing.memory.disk import PowerLoss
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"


class ExpireTests(SynchronousTestCase):
    """The segments that expire."""

    def test_old_segments_expire(self) -> None:
        """A younger one behind them stays."""
        rig = Rig(LogSettings(segment_bytes=10, retention_ms=5000))
        log = rig.filled(ENTRY, ENTRY)
        rig.clock.advance(3)
        rig.filled(ENTRY, ENTRY)
        rig.clock.advance(2.5)
        rig.store.expire()
        self.assertEqual((log.start, log.end), (40, 80))
        with self.assertRaises(OffsetOutOfRange):
            log.read(39, 10)
        rig.threads.settle()
        names = rig.files.list(f"{ROOT}/t-0")
        self.assertEqual([name for name in names if name.endswith(".log")], [f"{start:020}.log" for start in (40, 60)])
        self.assertEqual(rig.content(log), ENTRY * 2)

    def test_a_search_during_the_removal(self) -> None:
        """A thread that meets the log half-way takes no later entry for one that is removed."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(*[ENTRY] * 5)
        log.segment_list = log.segment_list.without_first(2)  # the start follows
        with self.assertRaises(OffsetOutOfRange):
            log.find_boundary(35)
        self.assertEqual(log.find_boundary(55), 40)

    def test_an_old_log_becomes_empty(self) -> None:
        """An empty segment takes the last one's place, so that ids go on."""
        rig = Rig(LogSettings(segment_bytes=10, retention_ms=5000))
        log = rig.filled(ENTRY, ENTRY)
        rig.clock.advance(6)
        rig.store.expire()
        rig.threads.settle()
        self.assertEqual((log.start, log.end, log.visible_end, log.segments()[0][:2]), (40, 40, 40, (40, 0)))
        rig.clock.advance(100)
        rig.store.expire()
        self.assertEqual(rig.threads.works, [])
        rig.stop()
        rig.open()
        self.assertEqual(rig.log().append([ENTRY], 1, -1), 40)

    def test_a_full_disk_keeps_the_last_segment(self) -> None:
        """The others expire, and the next pass tries again."""
        rig = Rig(LogSettings(segment_bytes=10, retention_ms=5000))
        log = rig.filled(ENTRY, ENTRY)
        rig.clock.advance(6)
        rig.files.errors["open"] = [OSError(errno.ENOSPC, "No space left on device")]
        rig.store.expire()
        self.assertEqual((log.start, log.offline), (20, None))
        self.assertIn("cannot begin a new segment", rig.reports[0])
        rig.store.expire()
        self.assertEqual(log.start, 40)
        rig.threads.settle()

    def test_the_oldest_segments_expire_by_size(self) -> None:
        """At least retention.bytes are left."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=50, retention_ms=-1))
        log = rig.filled(*[ENTRY] * 5)
        rig.store.expire()
        self.assertEqual((log.start, log.end), (40, 100))

    def test_nothing_expires_without_limits(self) -> None:
        """Negative settings mean that."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=-1, retention_ms=-1))
        log = rig.filled(*[ENTRY] * 5)
        rig.clock.advance(1e9)
        rig.store.expire()
        self.assertEqual(log.start, 0)

    def test_an_unflushed_segment_does_not_expire(self) -> None:
        """The segment stays however old it is."""
        rig = Rig(LogSettings(segment_bytes=10, retention_ms=1))
        log = rig.log()
        for _ in range(3):
            log.append([ENTRY], 1, -1)
        rig.clock.advance(10)
        rig.store.expire()
        self.assertEqual(log.start, 0)

    def test_a_running_send_goes_on(self) -> None:
        """A range is still readable after its segment's name is gone."""
        rig = Rig(LogSettings(segment_bytes=10, retention_ms=1))
        log = rig.filled(ENTRY, ENTRY)
        found = log.read(0, 100)
        assert found is not None
        rig.clock.advance(10)
        rig.store.expire()
        rig.threads.settle()
        self.assertFalse(rig.files.exists(rig.path(0)))
        self.assertEqual(found.file.read_at(found.file_position, found.count), ENTRY)
        found.close()


class UpkeepTests(SynchronousTestCase):
    """Checkpoints and removals on the disk."""

    def test_a_checkpoint_has_the_visible_end(self) -> None:
        """The end is that of the moment when the checkpoint's turn came, not more."""
        rig = Rig()
        log = rig.filled(ENTRY)
        log.append([ENTRY], 1, -1)
        rig.store.write_checkpoints()
        rig.threads.settle()
        self.assertEqual(read_checkpoint(rig.files, f"{ROOT}/t-0"), Checkpoint(0, 20))

    def test_an_unchanged_checkpoint_is_not_written(self) -> None:
        """A broker with thousands of idle partitions would sync all the time."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.store.write_checkpoints()
        rig.threads.settle()
        rig.store.write_checkpoints()
        self.assertEqual(rig.threads.works, [])

    def test_a_checkpoint_comes_before_the_removal(self) -> None:
        """The power may bring back any of the removed files, but no byte counts as lost then."""
        for power in range(1, 14):
            rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
            rig.filled(*[ENTRY] * 4)
            rig.store.write_checkpoints()
            rig.threads.settle()
            rig.files.random.seed(power)
            rig.store.expire()
            self.assertEqual(rig.log().start, 60)
            rig.files.power = power
            with contextlib.suppress(PowerLoss):
                rig.threads.settle()
            rig.kill(power_lost=True)
            rig.open()
            self.assertIn((rig.log().start, rig.log().end), [(0, 80), (60, 80)])
            self.assertNotIn("lost", " ".join(rig.reports))

    def test_a_checkpoints_name_must_last_first(self) -> None:
        """A start must sync it before it removes the files that it explains."""
        for power in range(1, 12):
            rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
            rig.filled(*[ENTRY] * 4)
            rig.store.write_checkpoints()
            rig.threads.settle()
            rig.store.expire()
            rig.files.skipped.add("directory in disk.atomic.replace_file")
            rig.files.errors["remove"] = [OSError(errno.EIO, "killed here")]
            rig.threads.settle()
            rig.kill()
            rig.files.random.seed(power)
            rig.files.power = power
            with contextlib.suppress(PowerLoss):
                rig.open()
            rig.kill(power_lost=True)
            rig.open()
            self.assertIn((rig.log().start, rig.log().end), [(0, 80), (60, 80)])
            self.assertNotIn("lost", " ".join(rig.reports))

    def test_only_changed_partitions_are_asked(self) -> None:
        """A pass over thousands of idle ones costs nothing."""
        rig = Rig()
        for number in range(100):
            rig.log(partition=number).append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.store.write_checkpoints()
        rig.threads.settle()
        asked: list[int] = []
        begin_upkeep = PartitionLog.begin_upkeep

        def counted(log: PartitionLog) -> tuple[Checkpoint, list[int]] | None:
            asked.append(log.partition)
            return begin_upkeep(log)

        self.patch(PartitionLog, "begin_upkeep", counted)
        rig.store.write_checkpoints()
        self.assertEqual(asked, [])
        for number in (7, 93):
            rig.log(partition=number).append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.store.write_checkpoints()
        rig.threads.settle()
        self.assertEqual(asked, [7, 93])
        self.assertEqual(read_checkpoint(rig.files, f"{ROOT}/t-93"), Checkpoint(0, 40))

    def test_a_stop_uses_all_threads(self) -> None:
        """At other times one checkpoint is written at a time, beside the flushes."""
        rig = Rig(limits={"flush_workers": 2})
        for number in range(10):
            rig.log(partition=number).append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.store.write_checkpoints()
        self.assertEqual(len(rig.threads.works), 1)
        done: list[bool] = []
        rig.store.finish_upkeep(lambda: done.append(True))
        self.assertEqual(len(rig.threads.works), 3)
        rig.threads.settle()
        self.assertEqual(done, [True])
        for number in range(10):
            self.assertEqual(read_checkpoint(rig.files, f"{ROOT}/t-{number}"), Checkpoint(0, 20))

    def test_a_deletion_waits_for_its_own_upkeep(self) -> None:
        """The upkeep of other partitions goes on beside the deletion."""
        rig = Rig(limits={"flush_workers": 2})
        for topic in ("t", "u"):
            rig.log(topic).append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.store.finish_upkeep(lambda: None)
        self.assertEqual(len(rig.threads.works), 2)
        deleted: list[BaseException | None] = []
        rig.store.delete("u", deleted.append)
        self.assertEqual(len(rig.threads.works), 2)
        rig.threads.work(1)
        rig.threads.deliver()
        self.assertEqual(len(rig.threads.works), 2)  # the upkeep of t, and the deletion
        rig.threads.settle()
        self.assertEqual(deleted, [None])

    def test_a_pass_over_partitions_takes_turns(self) -> None:
        """Other work gets the reactor in between."""
        at_once = 20
        self.patch(checkpoints_and_expiry, "LOOKED_AT_ONCE", at_once)
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
        count = at_once + 5
        for number in range(count):
            log = rig.log(partition=number)
            log.append([ENTRY], 1, -1)
            log.append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.store.expire()
        self.assertEqual(sum(1 for log in rig.store.logs() if log.start), at_once)
        rig.clock.advance(0)
        self.assertEqual(sum(1 for log in rig.store.logs() if log.start), count)
        rig.store.expire()
        rig.store.close()
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])

    def test_a_failed_checkpoint_is_tried_again(self) -> None:
        """Nothing is removed before it is written."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
        rig.filled(*[ENTRY] * 2)
        rig.files.errors["rename"] = [OSError(errno.EIO, "bad sector")]
        rig.store.expire()
        rig.threads.settle()
        self.assertTrue(rig.files.exists(rig.path(0)))
        self.assertIn("upkeep of /data/t-0 failed", rig.reports[0])
        rig.store.write_checkpoints()
        rig.threads.settle()
        self.assertFalse(rig.files.exists(rig.path(0)))

    def test_a_full_disk_expires_the_oldest_first(self) -> None:
        """Without room for the checkpoint, retention could never make any."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
        rig.filled(*[ENTRY] * 4)
        rig.files.room = 0
        rig.store.expire()
        rig.threads.settle()
        self.assertEqual(rig.reports, [])
        self.assertEqual(read_checkpoint(rig.files, f"{ROOT}/t-0"), Checkpoint(60, 80))
        self.assertEqual([name for name in rig.files.list(f"{ROOT}/t-0") if ".log" in name], [rig.path(60)[-24:]])

    def test_power_loss_on_a_full_disk_loses_nothing(self) -> None:
        """Only expired segments are gone, and the log is served."""
        for power in range(1, 60):
            for checkpoint in (True, False):
                rig = self.full(checkpoint)
                rig.files.random.seed(power)
                rig.files.power = power
                with contextlib.suppress(PowerLoss):
                    rig.store.expire()
                    rig.threads.settle()
                rig.kill(power_lost=True)
                if checkpoint and not rig.files._inode(f"{ROOT}/t-0/checkpoint").data:
                    self.assertEqual(read_mark(rig.files, f"{ROOT}/t-0"), 120)  # now it alone vouches for the end
                rig.open()
                log = rig.log()
                self.assertEqual((log.offline, log.end), (None, 120))
                self.assertEqual(rig.content(log), ENTRY * ((120 - log.start) // 20))

    def test_a_kill_on_a_full_disk_loses_nothing(self) -> None:
        """There may be a mark or not."""
        for power in range(1, 60):
            for mark in (True, False):
                rig = self.full(checkpoint=True)
                if not mark:
                    rig.files.remove(f"{ROOT}/t-0/mark")
                    rig.files.room = 0  # the file gave some back
                rig.files.power = power
                with contextlib.suppress(PowerLoss):
                    rig.store.expire()
                    rig.threads.settle()
                rig.kill()
                rig.open()
                self.assertEqual((rig.log().offline, rig.log().end), (None, 120))

    def test_a_new_mark_lasts_before_the_checkpoint_is_emptied(self) -> None:
        """A loss of power must not leave the log without both."""
        for seed in range(5):
            for power in range(1, 30):
                rig = self.full(checkpoint=True)
                rig.files.remove(f"{FOLDER}/mark")
                rig.files._directory(FOLDER).sync()
                rig.files.room = 0  # the file gave some back
                rig.files.random.seed(seed)
                rig.files.power = power
                with contextlib.suppress(PowerLoss):
                    rig.store.expire()
                    rig.threads.settle()
                rig.kill(power_lost=True)
                if not rig.files._inode(f"{FOLDER}/checkpoint").data:
                    self.assertEqual(read_mark(rig.files, FOLDER), 120, (seed, power))

    def test_a_checkpoint_stays_where_no_mark_can_be_written(self) -> None:
        """Something has to vouch for the log's end. The next pass tries again."""
        rig = self.full(checkpoint=True)
        rig.files.remove(f"{FOLDER}/mark")
        rig.files.room = 0
        rig.files.errors[f"write_at {FOLDER}/mark"] = [OSError(errno.ENOSPC, "no space left on device")]
        rig.store.expire()
        rig.threads.settle()
        self.assertEqual(read_checkpoint(rig.files, FOLDER), Checkpoint(0, 120))
        self.assertTrue(rig.files.exists(rig.path(0)))
        self.assertIn("upkeep of /data/t-0 failed: [Errno 28] the flush mark cannot be written", rig.reports[0])
        rig.store.write_checkpoints()
        rig.threads.settle()
        self.assertEqual(read_checkpoint(rig.files, FOLDER), Checkpoint(100, 120))
        self.assertFalse(rig.files.exists(rig.path(0)))

    def test_a_mark_of_the_former_checkpoint_is_enough(self) -> None:
        """No newer one can be written where writes in place need room, too, as on btrfs."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
        rig.filled(*[ENTRY] * 6)
        rig.store.write_checkpoints()
        rig.threads.settle()
        rig.filled(ENTRY)
        rig.files.errors[f"write_at {FOLDER}/mark"] = [OSError(errno.ENOSPC, "no space left on device")] * 9
        rig.filled(ENTRY)
        rig.files.room = 0
        rig.store.expire()
        rig.threads.settle()
        self.assertEqual((rig.reports, read_mark(rig.files, FOLDER)), ([], 140))
        self.assertFalse(rig.files.exists(rig.path(0)))
        rig.kill()
        rig.open()
        self.assertEqual((rig.log().offline, rig.log().end), (None, 160))

    def full(self, checkpoint: bool) -> Rig:
        """Return a full disk with six segments; the next checkpoint needs the room of several."""
        rig = Rig(LogSettings(segment_bytes=10, retention_bytes=0, retention_ms=-1))
        rig.filled(*[ENTRY] * 6)
        if checkpoint:
            rig.store.write_checkpoints()
            rig.threads.settle()
        for start in range(0, 100, 20):
            rig.files.remove(rig.path(start).replace(".log", ".index"))
        rig.files.room = 0
        return rig
