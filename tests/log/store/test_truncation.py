"""Tests of logd.log.store.truncation: a log that is served loses its end."""

from __future__ import annotations

import contextlib
import errno
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import LogdError, OffsetOutOfRange, PartitionOffline
from logd.leadership import PartitionLeadership
from logd.log.index import lookup
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint
from logd.log.recovery.flush_mark import read_mark, write_mark
from logd.log.store.truncation import TruncationRefused
from logd.testing.memory.disk import PowerLoss
from tests.log.entries import plain
from tests.log.rig import Listener, Rig

OLD = plain(b"o" * 11)  # 20 bytes
NEW = plain(b"n" * 11)
FOLDER = "/data/t-0"
FOLLOWER = PartitionLeadership(1, 3, (1, 0), (1, 0))


class TruncationTestCase(SynchronousTestCase):
    """A log of ten entries in segments of 60 bytes, of which readers have seen the first entry."""

    def setUp(self) -> None:
        """Fill and flush the log, and write a checkpoint."""
        self.rig = Rig(LogSettings(segment_bytes=50, index_bytes=1))
        self.follow(self.rig.filled(*[OLD] * 10))
        self.rig.store.write_checkpoints()
        self.rig.threads.settle()

    def follow(self, log: PartitionLog) -> PartitionLog:
        """Make another broker the leader of the log; its first 20 bytes are visible."""
        log.leadership, log.visible_end = FOLLOWER, 20
        return log

    @property
    def log(self) -> PartitionLog:
        """The log, as the store has it."""
        return self.rig.log()

    def truncate(self, position: int, stored_end: int = 0) -> list[BaseException | None]:
        """Truncate, let everything happen, and return the outcomes."""
        outcomes: list[BaseException | None] = []
        self.rig.store.truncate(self.log, position, stored_end, outcomes.append)
        self.rig.threads.settle()
        return outcomes

    def everything(self) -> bytes:
        """Return the bytes of the log, visible or not."""
        assert self.log.offline is None
        starts = [start for start, _, _ in self.log.segments()]
        content = b"".join(bytes(self.rig.data(start)) for start in starts)
        assert len(content) == self.log.end, (len(content), self.log.end)
        return content


class TruncationTests(TruncationTestCase):
    """The log after a truncation."""

    def test_a_log_can_end_at_any_boundary(self) -> None:
        """New messages follow there, and are there after a start."""
        for position in range(20, 220, 20):
            self.setUp()
            self.assertEqual(self.truncate(position), [None])
            log = self.log
            self.assertEqual((log.start, log.end, log.flushed_end, log.visible_end), (0, position, position, 20))
            self.assertEqual((log.leadership, log.offline), (FOLLOWER, None))
            for number in range(4):
                self.assertEqual(log.append([NEW], 1, -1), position + 20 * number)
            self.rig.threads.settle()
            self.assertEqual(self.log.flushed_end, position + 80)
            for power_lost in (False, True):
                expected = OLD * (position // 20) + NEW * 4
                self.assertEqual(self.everything(), expected)
                snapshot = self.log.snapshot(self.log.end)
                for offset in range(self.log.end):
                    self.assertEqual(lookup.find_boundary(snapshot, offset), offset // 20 * 20)
                self.rig.kill(power_lost)
                self.rig.open()
            self.assertEqual(self.rig.reports, [])

    def test_nothing_vouches_for_truncated_bytes(self) -> None:
        """Checkpoint, mark and files end with the log, or the next start would miss bytes."""
        self.assertEqual(self.truncate(80), [None])
        self.assertEqual(read_checkpoint(self.rig.files, FOLDER), Checkpoint(0, 80))
        self.assertEqual(read_mark(self.rig.files, FOLDER), 80)
        names = [name for name in self.rig.files.list(FOLDER) if name.endswith((".log", ".index"))]
        self.assertEqual(len(names), 4)
        self.rig.kill(power_lost=True)
        self.rig.open()
        self.assertEqual((self.log.end, self.rig.reports), (80, []))

    def test_a_truncation_at_the_end_does_nothing(self) -> None:
        """The log stays the same object."""
        log = self.log
        self.assertEqual(self.truncate(200), [None])
        self.assertIs(self.log, log)

    def test_unflushed_bytes_can_be_cut(self) -> None:
        """Bytes that are cut count no more against the bound on unflushed bytes."""
        for _ in range(3):
            self.log.append([NEW], 1, -1)
        self.assertEqual(self.truncate(220), [None])
        self.assertEqual(self.everything(), OLD * 10 + NEW)
        self.assertEqual((self.rig.store.unflushed_bytes, self.log.unflushed_bytes), (0, 0))

    def test_expired_segments_stay_gone(self) -> None:
        """The files of expired segments were still there when the log was cut."""
        self.follow(self.log).visible_end = 120
        self.log.settings = LogSettings(segment_bytes=50, retention_bytes=60)
        self.log.expire()
        self.assertEqual(self.log.start, 60)
        self.assertEqual(self.truncate(140), [None])
        self.assertEqual((self.log.start, self.log.end), (60, 140))
        self.assertFalse(self.rig.files.exists(self.rig.path(0)))

    def test_a_log_without_a_checkpoint_can_be_cut(self) -> None:
        """A log whose checkpoint is damaged can be cut as well."""
        for damage in (b"", b"?"):
            self.setUp()
            self.rig.files._inode(f"{FOLDER}/checkpoint").data[:] = damage
            self.assertEqual(self.truncate(100), [None])
            self.assertEqual(read_checkpoint(self.rig.files, FOLDER), Checkpoint(0, 100))
        rig = self.rig = Rig(LogSettings(segment_bytes=50))
        self.follow(rig.filled(OLD, OLD, OLD, OLD))
        self.assertEqual(self.truncate(20), [None])
        self.assertEqual(self.everything(), OLD)

    def test_truncated_bytes_never_come_back(self) -> None:
        """A kill may come at any step; once a start has found them gone, they stay so."""
        for steps in range(1, 25):
            for seed in range(10):
                self.setUp()
                position = 80
                self.rig.files.power, self.rig.files.random = steps, Random(seed)
                outcomes: list[BaseException | None] = []
                self.rig.store.truncate(self.log, position, 0, outcomes.append)
                with contextlib.suppress(PowerLoss):
                    self.rig.threads.settle()
                self.rig.kill()
                self.rig.open()
                end = self.log.end
                self.log.append([NEW], 1, -1)
                self.rig.kill(power_lost=True)
                self.rig.open()
                content = self.everything()
                self.assertIn(content[end:], (b"", NEW), (seed, steps))
                self.assertGreaterEqual(len(content), position)

    def test_a_second_truncation_syncs_the_mark(self) -> None:
        """The mark reads as wanted already, but a kill came before its sync."""
        for seed in range(10):
            self.setUp()
            self.rig.files.random = Random(seed)
            self.rig.files._inode(f"{FOLDER}/mark").sync()  # the disk has 200
            write_mark(self.rig.files, FOLDER, 60)
            self.assertEqual(self.truncate(80), [None])
            self.rig.kill(power_lost=True)
            self.rig.open()
            self.assertEqual((self.log.offline, self.log.end), (None, 80))


class RefusedTests(TruncationTestCase):
    """Truncations that are refused: the log is the same, and served."""

    def refused(self, position: int, stored_end: int = 0) -> BaseException | None:
        """Return the error of a truncation that is refused."""
        log, before = self.log, bytes(self.rig.data(180))
        (error,) = self.truncate(position, stored_end)
        self.assertIs(self.log, log)
        self.assertEqual((log.end, log.offline, bytes(self.rig.data(180))), (200, None, before))
        return error

    def test_a_position_inside_an_entry_is_refused(self) -> None:
        """The log would end with half an entry."""
        error = self.refused(90)
        self.assertIsInstance(error, TruncationRefused)
        self.assertIn("inside an entry", str(error))

    def test_visible_bytes_stay(self) -> None:
        """A consumer may have committed a position behind them."""
        self.log.visible_end = 100
        self.assertIn("readers have seen it up to 100", str(self.refused(80)))

    def test_what_was_lost_and_is_back_may_be_given_up(self) -> None:
        """The end that the tree had is lowered there before; until then it was known here as well."""
        self.rig.store.hold("t", 0, LogdError("its files are away"), 200)
        outcomes: list[BaseException | None] = []
        self.rig.store.reopen(self.log, lambda: True, outcomes.append)
        self.rig.threads.settle()
        self.follow(self.log)
        self.rig.store.truncate(self.log, 80, 0, outcomes.append, given_up=True)
        self.rig.threads.settle()
        self.log.go_offline(LogdError("the disk failed"))
        self.rig.store.reopen(self.log, lambda: True, outcomes.append)
        self.rig.threads.settle()
        self.assertEqual((outcomes, self.log.end, self.log.offline), ([None, None, None], 80, None))

    def test_visible_bytes_go_where_a_person_has_given_them_up(self) -> None:
        """Nothing else is overlooked."""
        self.log.visible_limit = self.log.visible_end = 100
        outcomes: list[BaseException | None] = []
        self.rig.store.truncate(self.log, 80, 81, outcomes.append, given_up=True)
        self.assertIn("the coordination tree vouches for it up to 81", str(outcomes.pop()))
        self.rig.store.truncate(self.log, 80, 0, outcomes.append, given_up=True)
        self.rig.threads.settle()
        self.assertEqual(outcomes, [None])
        self.assertEqual((self.log.end, self.log.visible_end), (80, 80))

    def test_deleted_records_stay_deleted_where_the_log_ends_before_the_first_message(self) -> None:
        """The checkpoint has to be one that the next start can read: else the log would begin with its first file."""
        self.log.visible_limit = self.log.visible_end = 100
        outcomes: list[BaseException | None] = []
        self.rig.store.delete_before(self.log, 99, outcomes.append)
        self.rig.threads.settle()
        self.assertEqual((self.log.start, self.log.first), (80, 99))
        self.rig.store.truncate(self.log, 80, 0, outcomes.append, given_up=True)
        self.rig.threads.settle()
        self.assertEqual(outcomes, [None, None])
        for _ in range(2):
            self.assertEqual((self.log.start, self.log.first, self.log.end), (80, 80, 80))
            self.rig.kill(power_lost=True)
            self.rig.open()
        self.assertEqual(self.rig.reports, [])

    def test_a_stored_end_stays(self) -> None:
        """The next start would take the log for a lost one."""
        error = self.refused(80, stored_end=81)
        self.assertIsInstance(error, TruncationRefused)
        self.assertIn("the coordination tree vouches for it up to 81", str(error))
        self.assertEqual(self.truncate(80, stored_end=80), [None])

    def test_a_known_end_stays(self) -> None:
        """The end was known when the store was opened."""
        self.rig.stop()
        self.rig.known_end["t", 0] = 120
        self.rig.open()
        self.follow(self.log)
        self.assertIn("up to 120", str(self.refused(80)))

    def test_a_position_outside_the_log_is_refused(self) -> None:
        """A position that is not in the log is refused."""
        self.assertIsInstance(self.refused(220), OffsetOutOfRange)
        self.assertIsInstance(self.refused(-20), OffsetOutOfRange)

    def test_an_offline_log_is_not_cut(self) -> None:
        """The log may go offline while the truncation waits."""
        outcomes: list[BaseException | None] = []
        self.rig.store.truncate(self.log, 80, 0, outcomes.append)
        self.log.go_offline(OSError(errno.EIO, "input/output error"))
        self.rig.threads.settle()
        self.rig.store.truncate(self.log, 80, 0, outcomes.append)
        self.assertEqual([type(error) for error in outcomes], [PartitionOffline] * 2)
        self.assertEqual(len(self.rig.data(180)), 20)


class AroundTests(TruncationTestCase):
    """Readers, waiters and syncs of a log that is cut."""

    def test_a_reader_keeps_its_bytes(self) -> None:
        """The reader's range is of the old file, while readers of the new log never see that."""
        self.log.visible_end = 200
        held = self.log.read(20, 20)
        later = self.log.read(120, 20)  # its file is kept open for the next reader
        assert held is not None and later is not None
        later.close()
        self.follow(self.log)
        self.assertEqual(self.truncate(60), [None])
        self.assertEqual(held.file.read_at(held.file_position, held.count), OLD)
        held.close()
        for _ in range(6):
            self.log.append([NEW], 1, -1)
        self.rig.threads.settle()
        self.log.visible_end = self.log.end
        self.assertEqual(self.rig.content(self.log), OLD * 3 + NEW * 6)
        self.rig.stop()
        self.assertEqual(self.rig.files.open_handles, 0)

    def test_a_waiter_is_told_to_try_again(self) -> None:
        """The position of the wait may not be reached any more."""
        listener = Listener()
        self.log.wait_visible(200, listener)
        self.assertEqual(self.truncate(60), [None])
        (error,) = listener.calls
        self.assertIsInstance(error, PartitionOffline)
        self.assertIn("try again soon", str(error))

    def test_a_truncation_waits_for_the_sync(self) -> None:
        """The bytes that it brings are cut as well."""
        self.log.append([NEW], 1, -1)
        (held,) = self.rig.threads.works
        self.rig.threads.works.clear()
        outcomes: list[BaseException | None] = []
        self.rig.store.truncate(self.log, 100, 0, outcomes.append)
        self.rig.threads.settle()
        self.assertEqual((outcomes, self.rig.data(180)), ([], OLD + NEW))
        self.rig.threads.works.append(held)
        self.rig.threads.settle()
        self.assertEqual(outcomes, [None])
        self.assertEqual(self.everything(), OLD * 5)
        self.assertEqual(read_mark(self.rig.files, FOLDER), 100)

    def test_a_failed_truncation_takes_it_offline(self) -> None:
        """The next start ends the log at an entry."""
        for call in ("sync_data", "truncate", "remove", "sync_directory", "list"):
            self.setUp()
            self.rig.files.errors[call] = [OSError(errno.EIO, "input/output error")]
            (error,) = self.truncate(80)
            self.assertIsInstance(error, OSError, call)
            self.assertIn("could not be truncated to 80: ", str(self.log.offline), call)
            self.rig.kill()
            self.rig.open()
            self.assertEqual((self.log.offline, self.everything()), (None, OLD * (self.log.end // 20)), call)
            self.assertGreaterEqual(self.log.end, 80)
