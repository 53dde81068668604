"""Tests of lost logs in a LogStore: partitions held offline, known ends, and logs that begin again."""

from __future__ import annotations

import contextlib
import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import LogdError, OffsetOutOfRange, PartitionOffline, UnknownError
from logd.log.disk.names import is_beginning_name, is_lost_name
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_log_replacement import JUMP, LEAST_JUMP, beginning_after
from logd.log.recovery.lost_segments import BytesLost
from logd.testing.memory.disk import PowerLoss
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"
REASON = LogdError("the disk is another")


def reopened(rig: Rig, log: PartitionLog) -> list[BaseException | None]:
    """Look at a log again, and return the outcome."""
    outcome: list[BaseException | None] = []
    rig.store.reopen(log, lambda: True, outcome.append)
    rig.threads.settle()
    return outcome


class HoldTests(SynchronousTestCase):
    """Partitions that are held offline."""

    def test_a_partition_may_be_held_without_files(self) -> None:
        """Nothing is made on the disk for it."""
        rig = Rig()
        log = rig.store.hold("t", 0, REASON, 100)
        self.assertIs(rig.store.log("t", 0), log)
        self.assertIs(rig.store.create("t", 0), log)
        self.assertRaises(PartitionOffline, log.append, [ENTRY], 1, -1)
        self.assertFalse(rig.files.exists(FOLDER))
        self.assertIn("the disk is another", rig.reports)
        rig.stop()
        self.assertFalse(rig.files.exists(FOLDER))

    def test_a_served_partition_can_be_held(self) -> None:
        """The partition goes offline, and its files stay as they are."""
        rig = Rig()
        log = rig.filled(ENTRY)
        self.assertIs(rig.store.hold("t", 0, REASON, 100), log)
        self.assertIs(log.offline, REASON)
        self.assertEqual(bytes(rig.data()), ENTRY)

    def test_files_put_back_are_served(self) -> None:
        """The files have to reach the known end, or the partition stays offline."""
        rig = Rig()
        rig.filled(ENTRY, ENTRY)
        rig.stop()
        rig.files.rename(FOLDER, f"{ROOT}/away")
        rig.open()
        log = rig.store.hold("t", 0, REASON, 40)
        (error,) = reopened(rig, log)
        self.assertIsInstance(error, OSError)
        rig.files.make_directory(FOLDER)
        (error,) = reopened(rig, log)
        self.assertIsInstance(error, BytesLost)
        self.assertIs(log.offline, error)
        rig.files.remove_directory(FOLDER)
        rig.files.rename(f"{ROOT}/away", FOLDER)
        self.assertEqual(reopened(rig, log), [None])
        self.assertEqual(rig.content(rig.log()), ENTRY * 2)

    def test_one_reopening_is_under_way(self) -> None:
        """Another one at the same time would change files below the log that the first one serves."""
        rig = Rig()
        log = rig.filled(ENTRY)
        log.go_offline(REASON)
        outcome: list[BaseException | None] = []
        rig.store.reopen(log, lambda: True, outcome.append)
        rig.store.reopen(log, lambda: self.fail("prepared twice"), outcome.append)
        (error,) = outcome
        self.assertIsInstance(error, UnknownError)
        rig.threads.settle()
        self.assertEqual((outcome[1:], rig.log().offline), ([None], None))

    def test_a_log_that_was_replaced_is_not_reopened(self) -> None:
        """The files are those of the log that has its name now, and must stay as they are."""
        rig = Rig()
        log = rig.filled(ENTRY)
        deleted: list[BaseException | None] = []
        rig.store.delete("t", deleted.append)
        rig.threads.settle()
        outcome: list[BaseException | None] = []
        for again in (lambda: None, lambda: rig.filled(ENTRY)):
            again()
            before = rig.files.list(ROOT)
            rig.store.begin_again(log, JUMP, outcome.append)
            rig.store.restart(log, 0, outcome.append)
            rig.threads.settle()
            self.assertEqual([type(error) for error in outcome], [UnknownError, UnknownError])
            self.assertEqual(rig.files.list(ROOT), before)
            outcome.clear()
        self.assertEqual(rig.content(rig.log()), ENTRY)

    def test_an_old_backup_is_not_served(self) -> None:
        """The files of the backup end before the known end."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.store.hold("t", 0, REASON, 100)
        rig.store.hold("t", 0, REASON, 60)
        (error,) = reopened(rig, log)
        self.assertIn("bytes 20 to 100 are lost", str(error))

    def test_a_held_topic_can_be_deleted(self) -> None:
        """The topic can be made again from nothing."""
        rig = Rig()
        rig.store.hold("t", 0, REASON, 100)
        outcome: list[BaseException | None] = []
        rig.store.delete("t", outcome.append)
        rig.threads.settle()
        self.assertEqual(outcome, [None])
        self.assertEqual(rig.filled(ENTRY).end, 20)

    def test_the_highest_known_end_counts(self) -> None:
        """The end may be that of the files, or of any hold."""
        rig = Rig()
        self.assertEqual(rig.store.known_end("t", 0), 0)
        rig.filled(ENTRY)
        self.assertEqual(rig.store.known_end("t", 0), 20)
        rig.store.hold("t", 0, REASON, 10)
        self.assertEqual(rig.store.known_end("t", 0), 20)
        rig.store.hold("t", 0, REASON, 100)
        self.assertEqual(rig.store.known_end("t", 0), 100)

    def test_a_new_log_lasts(self) -> None:
        """A loss of power must not make an empty log look like a lost one."""
        for power in range(20):
            rig = Rig()
            rig.files.random.seed(power)
            rig.store.make_lasting([rig.log()], self.assertIsNone)
            rig.threads.settle()
            rig.kill(power_lost=True)
            rig.known_end = {("t", 0): 0}
            rig.open()
            self.assertEqual([log.offline for log in rig.store.logs()], [None])


class BeginAgainTests(SynchronousTestCase):
    """Logs that begin again, behind every id that was given."""

    def begin(self, rig: Rig, position: int = JUMP) -> list[BaseException | None]:
        """Begin t-0 again, and return the outcome."""
        outcome: list[BaseException | None] = []
        rig.store.begin_again(rig.log(), position, outcome.append)
        rig.threads.settle()
        return outcome

    def test_a_beginning_is_a_round_position(self) -> None:
        """The position is a multiple of 2^40, at least 2^39 above the end; an end too near 2^63 is refused."""
        self.assertEqual([beginning_after(end) for end in (0, 1, LEAST_JUMP)], [JUMP] * 3)
        self.assertEqual(beginning_after(LEAST_JUMP + 1), 2 * JUMP)
        last = (1 << 63) - JUMP
        self.assertEqual(beginning_after(last - LEAST_JUMP), last)
        self.assertRaises(UnknownError, beginning_after, last - LEAST_JUMP + 1)

    def test_a_log_begins_without_files(self) -> None:
        """The new log is empty, served, and lasts."""
        rig = Rig()
        rig.store.hold("t", 0, REASON, 100)
        self.assertEqual(self.begin(rig), [None])
        log = rig.log()
        self.assertEqual((log.start, log.end, log.visible_end, log.offline), (JUMP, JUMP, JUMP, None))
        rig.kill(power_lost=True)
        rig.known_end = {("t", 0): JUMP}
        rig.open()
        log = rig.filled(ENTRY)
        self.assertEqual((log.start, log.end, rig.content(log)), (JUMP, JUMP + 20, ENTRY))
        self.assertRaises(OffsetOutOfRange, log.read, 0, 100)

    def test_old_files_are_kept_aside(self) -> None:
        """The folder's name says so, and later starts leave it alone."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.store.hold("t", 0, REASON, 100)
        self.assertEqual(self.begin(rig), [None])
        aside = f"{FOLDER}.{JUMP}.lost"
        self.assertEqual(rig.files._inode(f"{aside}/{0:020}.log").data, ENTRY)
        rig.stop()
        rig.reports.clear()
        rig.open()
        self.assertEqual((rig.reports, len(rig.store.logs())), ([], 1))

    def test_a_beginning_survives_power_loss(self) -> None:
        """The old log, none, or the new one is there, and it can be begun again."""
        for seed in range(3):
            for power in range(1, 40):
                rig = Rig()
                rig.files.random.seed(seed)
                rig.filled(ENTRY)
                rig.store.hold("t", 0, REASON, 100)
                rig.files.power = power
                done: list[BaseException | None] = []
                with contextlib.suppress(PowerLoss):
                    done = self.begin(rig)
                rig.files.power = None
                rig.kill(power_lost=True)
                rig.known_end = {("t", 0): 100}
                rig.open()
                names = [name for name in rig.files.list(ROOT) if name.startswith("t-0")]
                self.assertFalse([name for name in names if is_beginning_name(name)])
                log = rig.store.hold("t", 0, REASON, 100) if not rig.store.logs() else rig.log()
                if done == [None]:
                    self.assertEqual((log.start, log.offline), (JUMP, None))
                if log.offline is not None:
                    self.assertEqual(self.begin(rig), [None])
                self.assertEqual((rig.log().start, rig.log().end), (JUMP, JUMP))
                kept = [name for name in rig.files.list(ROOT) if is_lost_name(name)]
                self.assertIn(ENTRY, [bytes(rig.files._inode(f"{ROOT}/{name}/{0:020}.log").data) for name in kept])

    def test_a_failed_beginning_can_be_repeated(self) -> None:
        """The log is offline meanwhile."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.store.hold("t", 0, REASON, 100)
        rig.files.errors["rename"] = [OSError(5, "input/output error")]
        (error,) = self.begin(rig)
        self.assertIsInstance(error, OSError)
        self.assertIsNotNone(rig.log().offline)
        self.assertEqual(self.begin(rig), [None])

    def test_a_log_can_begin_again_twice(self) -> None:
        """The folders of both former logs are kept aside."""
        rig = Rig()
        for position in (JUMP, 2 * JUMP):
            rig.filled(ENTRY)
            rig.store.hold("t", 0, REASON, 100)
            self.assertEqual(self.begin(rig, position), [None])
        self.assertEqual(rig.log().start, 2 * JUMP)
        self.assertEqual(len([name for name in rig.files.list(ROOT) if is_lost_name(name)]), 2)

    def test_a_served_log_does_not_begin_again(self) -> None:
        """A log that is held does not either, at a position that is no such multiple."""
        rig = Rig()
        log = rig.filled(ENTRY)
        with self.assertRaises(ValueError):
            rig.store.begin_again(log, JUMP, lambda error: None)
        rig.store.hold("t", 0, REASON, 100)
        for position in (0, -JUMP, JUMP + 1):
            with self.assertRaises(ValueError):
                rig.store.begin_again(log, position, lambda error: None)


class RestartTests(SynchronousTestCase):
    """Logs of followers that begin again without what they had, as nothing counts on it."""

    def restart(self, rig: Rig, position: int = 400) -> list[BaseException | None]:
        """Begin t-0 again, and return the outcome."""
        outcome: list[BaseException | None] = []
        rig.store.restart(rig.log(), position, outcome.append)
        rig.threads.settle()
        return outcome

    def test_the_former_log_makes_room_for_the_new_one(self) -> None:
        """The disk is full of it: nobody else removes anything of a log that is offline."""
        rig = Rig()
        rig.filled(*[ENTRY] * 10)
        rig.files.room = 0
        self.assertEqual(self.restart(rig), [None])
        self.assertEqual((rig.log().start, rig.log().offline), (400, None))

    def test_no_file_of_the_former_log_is_open_as_it_is_removed(self) -> None:
        """A removed file that is open keeps its room."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY, ENTRY)
        self.assertEqual(rig.content(log), ENTRY * 2)
        rig.store.restart(log, 400, lambda error: None)
        self.assertEqual(rig.files.open_handles, 1)  # the lock

    def test_without_room_it_is_tried_again(self) -> None:
        """Others have taken the room of the former log meanwhile."""
        rig = Rig()
        rig.filled(ENTRY)
        rig.files.errors["make_directory"] = [OSError(errno.ENOSPC, "no space left on device")]
        (error,) = self.restart(rig)
        self.assertIsInstance(error, OSError)
        self.assertIsNotNone(rig.log().offline)
        self.assertEqual(self.restart(rig), [None])
        self.assertEqual((rig.log().start, rig.log().offline), (400, None))

    def test_a_kill_at_any_step_leaves_nothing_behind(self) -> None:
        """The former log, none, or the new one is there, and nothing else keeps any room."""
        seen: set[str] = set()
        for power_lost in (False, True):
            for power in range(1, 40):
                rig = Rig()
                rig.files.random.seed(power)
                rig.filled(ENTRY)
                rig.store.make_lasting([rig.log()], self.assertIsNone)
                rig.threads.settle()
                rig.files.power = power
                done: list[BaseException | None] = []
                with contextlib.suppress(PowerLoss):
                    done = self.restart(rig)
                rig.kill(power_lost)
                rig.open()
                logs = [(log.start, log.end) for log in rig.store.logs()]
                self.assertIn(logs, [[(400, 400)]] if done else [[(0, 20)], [], [(400, 400)]])
                names = [name for name in rig.files.list(ROOT) if name not in ("meta", "meta.copy", "topics.json")]
                self.assertIn(names, [[], ["t-0"]], (power, power_lost))
                seen.add(str(logs))
        self.assertEqual(len(seen), 3)
