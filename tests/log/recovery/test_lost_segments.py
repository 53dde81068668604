"""Tests of starts that find flushed bytes missing: no id is given twice, and no file is touched."""

from __future__ import annotations

import errno
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import PartitionOffline
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_segments import BytesLost, LostRange, find_losses, highest_end
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"
SMALL = LogSettings(segment_bytes=50, index_bytes=1)


def killed(checkpoint: bool = True) -> Rig:
    """Return a killed broker's disk: segments 0-60, 60-120, 120-160 of partition t-0, and another partition."""
    rig = Rig(SMALL)
    rig.filled(*[ENTRY] * 8)
    rig.log("u").append([ENTRY], 1, -1)
    rig.threads.settle()
    if checkpoint:
        rig.store.write_checkpoints()
        rig.threads.settle()
    rig.kill()
    return rig


class LossAtStartTests(SynchronousTestCase):
    """Starts that find flushed bytes in no file."""

    def start(self, rig: Rig, damage: Callable[[], object]) -> PartitionLog:
        """Damage and start; check that the folder is unchanged and the other partition served. Return the log."""
        damage()
        before = self.folder(rig)
        rig.reports.clear()
        rig.open()
        self.assertEqual(self.folder(rig), before)
        self.assertEqual(rig.content(rig.log("u")), ENTRY)
        return rig.log()

    def folder(self, rig: Rig) -> dict[str, bytes]:
        """Return the files of the folder, with their bytes."""
        return {name: bytes(rig.files._inode(f"{FOLDER}/{name}").data) for name in rig.files.list(FOLDER)}

    def is_offline(self, log: PartitionLog, *losses: LostRange, text: str) -> None:
        """Check that the log is offline for these losses, and that its reason has ``text`` and a remedy."""
        reason = log.offline
        assert isinstance(reason, BytesLost), reason
        self.assertEqual(reason.losses, losses)
        for words in (text, "no id is given twice", "logd repair", "restart the broker"):
            self.assertIn(words, str(reason))
        self.assertRaises(PartitionOffline, log.append, [ENTRY], 1, -1)
        self.assertRaises(PartitionOffline, log.read, 0, 100)

    def test_a_missing_segment_is_named(self) -> None:
        """The reason has its file and the lost bytes, with a checkpoint or by the mark alone."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(60)))  # type: ignore[misc]
            self.is_offline(log, LostRange(60, 120, 0), text=f"{rig.path(60)} is missing: bytes 60 to 120 are lost")
            self.assertIn(str(log.offline), rig.reports)

    def test_a_short_segment_is_named(self) -> None:
        """The segment was closed, so the next one tells where it ended."""
        rig = killed()

        def damage() -> None:
            del rig.data(60)[30:]

        log = self.start(rig, damage)
        self.is_offline(log, LostRange(90, 120, 60), text=f"{rig.path(60)} has lost its end: bytes 90 to 120 are lost")

    def test_both_possible_files_are_named(self) -> None:
        """Without an index nothing tells which of two files it was."""
        rig = killed()

        def damage() -> None:
            del rig.data(60)[40:]
            rig.files.remove(f"{FOLDER}/00000000000000000060.index")

        log = self.start(rig, damage)
        text = f"{rig.path(100)} is missing, or {rig.path(60)} has lost its end: bytes 100 to 120 are lost"
        self.is_offline(log, LostRange(100, 120, 60), text=text)

    def test_each_loss_is_named(self) -> None:
        """An operator can then look for all the files at once."""
        rig = killed()

        def damage() -> None:
            del rig.data(0)[20:]
            rig.files.remove(rig.path(60))
            del rig.data(120)[20:]

        log = self.start(rig, damage)
        text = f"{rig.path(0)} has lost its end, and {rig.path(60)} is missing: bytes 20 to 120 are lost"
        self.is_offline(log, LostRange(20, 120, 0), LostRange(140, 160, 120), text=text)

    def test_a_missing_last_segment_is_noticed(self) -> None:
        """Checkpoint or mark vouch for its bytes, whether it is missing or short."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(120)))  # type: ignore[misc]
            self.is_offline(log, LostRange(120, 160, 60), text=f"{rig.path(120)} is missing")

            def cut(data: bytearray) -> None:
                del data[25:]

            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: cut(rig.data(120)))  # type: ignore[misc]
            self.is_offline(log, LostRange(145, 160, 120), text="bytes 145 to 160 are lost")

    def test_missing_first_segments_are_noticed(self) -> None:
        """The log starts before them, as the checkpoint says."""
        rig = killed()

        def damage() -> None:
            rig.files.remove(rig.path(0))
            rig.files.remove(rig.path(60))

        self.is_offline(self.start(rig, damage), LostRange(0, 120, None), text=f"{rig.path(0)} is missing")

    def test_a_log_without_a_checkpoint_began_at_0(self) -> None:
        """Retention would have left one, so mark or tree tell of the loss."""
        for known_end in (None, 100):
            rig = killed(checkpoint=False)
            if known_end is not None:
                rig.files.remove(f"{FOLDER}/mark")
                rig.known_end = {("t", 0): known_end}
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(0)))  # type: ignore[misc]
            self.is_offline(log, LostRange(0, 60, None), text=f"{rig.path(0)} is missing: bytes 0 to 60 are lost")

    def test_an_unvouched_log_begins_where_it_can(self) -> None:
        """Without checkpoint and mark it may be a crash before the first sync."""
        rig = killed(checkpoint=False)
        rig.files.remove(f"{FOLDER}/mark")
        rig.files.remove(rig.path(0))
        rig.open()
        self.assertEqual((rig.log().offline, rig.log().start, rig.log().end), (None, 60, 160))

    def test_a_damaged_checkpoint_allows_a_later_start(self) -> None:
        """Retention may have removed the first segment."""
        rig = killed()
        rig.files.remove(rig.path(0))
        rig.files._inode(f"{FOLDER}/checkpoint").data[20] ^= 1
        rig.open()
        self.assertEqual((rig.log().offline, rig.log().start, rig.log().end), (None, 60, 160))

    def test_a_log_without_segments_is_offline(self) -> None:
        """Checkpoint or mark tell that there were some."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)

            def damage(rig: Rig = rig) -> None:
                for start in (0, 60, 120):
                    rig.files.remove(rig.path(start))

            self.is_offline(self.start(rig, damage), LostRange(0, 160, None), text="bytes 0 to 160 are lost")

    def test_a_file_put_back_ends_the_loss(self) -> None:
        """All is served, and ids go on where they were."""
        rig = killed()
        content = bytes(rig.data(60))
        self.start(rig, lambda: rig.files.remove(rig.path(60)))
        rig.kill()
        file = rig.files.open(rig.path(60), create=True)
        file.append([content])
        file.close()
        rig.open()
        self.assertEqual(rig.content(rig.log()), ENTRY * 8)
        self.assertEqual(rig.log().append([ENTRY], 1, -1), 160)

    def test_a_torn_tail_is_cut_beside_that(self) -> None:
        """Nothing vouches for it, so the partition is served."""
        rig = killed()
        rig.data(120).extend(b"torn")
        rig.open()
        self.assertEqual(rig.log().end, 160)

    def test_expired_segments_are_no_loss(self) -> None:
        """Retention has removed them, or was about to."""
        rig = Rig(LogSettings(segment_bytes=50, retention_bytes=50, retention_ms=-1))
        rig.filled(*[ENTRY] * 8)
        rig.store.expire()
        rig.threads.settle()
        rig.kill()
        rig.open()
        log = rig.log()
        self.assertEqual((log.offline, log.start, log.end), (None, 60, 160))


class KnownEndTests(SynchronousTestCase):
    """Ends that are known from the coordination tree when a store is opened."""

    def open(self, rig: Rig, known_end: int | None) -> PartitionLog:
        """Open the store with a known end of t-0, and return the log."""
        rig.known_end = {("t", 0): known_end} if known_end is not None else {}
        rig.open()
        return rig.store.logs_of("t")[0]

    def test_a_log_that_reaches_its_known_end_is_served(self) -> None:
        """Bytes before that end are not cut, though they are damaged."""
        rig = killed()
        self.assertEqual(self.open(rig, 160).offline, None)
        rig.kill()
        rig.files.remove(f"{FOLDER}/mark")
        rig.files.remove(f"{FOLDER}/checkpoint")
        rig.data(120)[10] ^= 1
        self.assertEqual(self.open(rig, 160).end, 160)

    def test_a_log_below_its_known_end_is_offline(self) -> None:
        """Nothing of it is touched, not even a torn tail."""
        rig = killed()
        rig.data(120).extend(b"torn")
        log = self.open(rig, 1000)
        self.assertIn("bytes 164 to 1000 are lost", str(log.offline))
        self.assertEqual(len(rig.data(120)), 44)

    def test_an_empty_folder_is_not_an_empty_log(self) -> None:
        """Nothing is made in it until the log is asked for."""
        rig = Rig()
        rig.kill()
        rig.files.make_directory(FOLDER)
        self.assertIsInstance(self.open(rig, 0).offline, BytesLost)
        rig.kill()
        rig.known_end = {}
        rig.open()
        self.assertEqual((rig.store.logs(), rig.files.list(FOLDER)), ([], []))
        self.assertEqual((rig.store.create("t", 0).offline, rig.store.logs_of("t")[0].end), (None, 0))


class FindLossesTests(SynchronousTestCase):
    """The arithmetic of losses."""

    def test_an_empty_log_has_lost_nothing(self) -> None:
        """A log whose first name a crash took before any flush has lost nothing either."""
        self.assertEqual(find_losses([], 0, 0), [])
        self.assertEqual(find_losses([], 60, 60), [])
        self.assertEqual(find_losses([(60, 20)], 0, 0), [])

    def test_excess_bytes_replace_no_loss(self) -> None:
        """Bytes behind the next segment's start have no positions."""
        self.assertEqual(find_losses([(0, 160), (60, 20), (120, 40)], 0, 160), [LostRange(80, 120, 60)])

    def test_the_highest_known_end_counts(self) -> None:
        """Sources that cannot be read are left out."""
        rig = killed()
        self.assertEqual(highest_end(rig.files, FOLDER), 160)
        for name in ("mark", "checkpoint"):
            rig.files.remove(f"{FOLDER}/{name}")
        self.assertEqual(highest_end(rig.files, FOLDER), 160)
        rig.files.errors[f"list {FOLDER}"] = [OSError(errno.EIO, "bad sector")]
        self.assertEqual(highest_end(rig.files, FOLDER), 0)
        self.assertEqual(highest_end(rig.files, f"{ROOT}/none-0"), 0)
