"""Tests of starts that find flushed bytes missing: no id is given twice, nothing is touched."""

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
    """Segments 0-60, 60-120, 120-160 of partition t-0, and another partition; the broker was killed."""
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
    """What a start makes of flushed bytes that are in no file."""

    def start(self, rig: Rig, damage: Callable[[], object]) -> PartitionLog:
        """Do the damage and start; the folder stays as it is, and the other partition is served. Return the log."""
        damage()
        before = self.folder(rig)
        rig.reports.clear()
        rig.open()
        self.assertEqual(self.folder(rig), before)
        self.assertEqual(rig.content(rig.log("u")), ENTRY)
        return rig.log()

    def folder(self, rig: Rig) -> dict[str, bytes]:
        """What is in the folder."""
        return {name: bytes(rig.files._inode(f"{FOLDER}/{name}").data) for name in rig.files.list(FOLDER)}

    def is_offline(self, log: PartitionLog, *losses: LostRange, text: str) -> None:
        """It is, with these losses, for a reason that has ``text`` in it and says what to do; nothing is answered."""
        reason = log.offline
        assert isinstance(reason, BytesLost), reason
        self.assertEqual(reason.losses, losses)
        for words in (text, "no id is given twice", "logd repair", "restart the broker"):
            self.assertIn(words, str(reason))
        self.assertRaises(PartitionOffline, log.append, [ENTRY], 1, -1)
        self.assertRaises(PartitionOffline, log.read, 0, 100)

    def test_a_missing_segment(self) -> None:
        """A hole in the middle: the partition is offline, and its reason names the file and the range."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(60)))  # type: ignore[misc]
            self.is_offline(log, LostRange(60, 120, 0), text=f"{rig.path(60)} is missing: bytes 60 to 120 are lost")
            self.assertIn(str(log.offline), rig.reports)

    def test_a_short_segment(self) -> None:
        """A rolled segment that has lost its end."""
        rig = killed()

        def damage() -> None:
            del rig.data(60)[30:]

        log = self.start(rig, damage)
        self.is_offline(log, LostRange(90, 120, 60), text=f"{rig.path(60)} has lost its end: bytes 90 to 120 are lost")

    def test_a_short_segment_without_an_index(self) -> None:
        """With nothing that tells which of two files it was, both are named."""
        rig = killed()

        def damage() -> None:
            del rig.data(60)[40:]
            rig.files.remove(f"{FOLDER}/00000000000000000060.index")

        log = self.start(rig, damage)
        text = f"{rig.path(100)} is missing, or {rig.path(60)} has lost its end: bytes 100 to 120 are lost"
        self.is_offline(log, LostRange(100, 120, 60), text=text)

    def test_several(self) -> None:
        """Each loss is named."""
        rig = killed()

        def damage() -> None:
            del rig.data(0)[20:]
            rig.files.remove(rig.path(60))
            del rig.data(120)[20:]

        log = self.start(rig, damage)
        text = f"{rig.path(0)} has lost its end, and {rig.path(60)} is missing: bytes 20 to 120 are lost"
        self.is_offline(log, LostRange(20, 120, 0), LostRange(140, 160, 120), text=text)

    def test_the_last_segment(self) -> None:
        """The last one is missing, or short, below what the checkpoint or the mark alone vouches for."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(120)))  # type: ignore[misc]
            self.is_offline(log, LostRange(120, 160, 60), text=f"{rig.path(120)} is missing")

            def cut(data: bytearray) -> None:
                del data[25:]

            rig = killed(checkpoint)
            log = self.start(rig, lambda rig=rig: cut(rig.data(120)))  # type: ignore[misc]
            self.is_offline(log, LostRange(145, 160, 120), text="bytes 145 to 160 are lost")

    def test_the_first_segments(self) -> None:
        """The first ones are missing, above the start that the checkpoint says."""
        rig = killed()

        def damage() -> None:
            rig.files.remove(rig.path(0))
            rig.files.remove(rig.path(60))

        self.is_offline(self.start(rig, damage), LostRange(0, 120, None), text=f"{rig.path(0)} is missing")

    def test_the_first_segments_without_a_checkpoint(self) -> None:
        """Retention would have left a checkpoint: so the mark, or the tree, tells that a log began at 0."""
        for known_end in (None, 100):
            rig = killed(checkpoint=False)
            if known_end is not None:
                rig.files.remove(f"{FOLDER}/mark")
                rig.known_end = {("t", 0): known_end}
            log = self.start(rig, lambda rig=rig: rig.files.remove(rig.path(0)))  # type: ignore[misc]
            self.is_offline(log, LostRange(0, 60, None), text=f"{rig.path(0)} is missing: bytes 0 to 60 are lost")

    def test_the_first_segment_without_anything(self) -> None:
        """Without checkpoint and mark it may be a crash before the first sync: the log begins with what is there."""
        rig = killed(checkpoint=False)
        rig.files.remove(f"{FOLDER}/mark")
        rig.files.remove(rig.path(0))
        rig.open()
        self.assertEqual((rig.log().offline, rig.log().start, rig.log().end), (None, 60, 160))

    def test_the_first_segment_with_a_damaged_checkpoint(self) -> None:
        """A checkpoint was there, so retention may have removed it: the log is served from what is left."""
        rig = killed()
        rig.files.remove(rig.path(0))
        rig.files._inode(f"{FOLDER}/checkpoint").data[20] ^= 1
        rig.open()
        self.assertEqual((rig.log().offline, rig.log().start, rig.log().end), (None, 60, 160))

    def test_all_segments(self) -> None:
        """All of them are: with a checkpoint, or a mark alone."""
        for checkpoint in (True, False):
            rig = killed(checkpoint)

            def damage(rig: Rig = rig) -> None:
                for start in (0, 60, 120):
                    rig.files.remove(rig.path(start))

            self.is_offline(self.start(rig, damage), LostRange(0, 160, None), text="bytes 0 to 160 are lost")

    def test_put_back(self) -> None:
        """Once the file is back all is served, and ids go on where they were."""
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

    def test_a_torn_tail_beyond(self) -> None:
        """What lies behind all that something vouches for is still cut, and the partition served."""
        rig = killed()
        rig.data(120).extend(b"torn")
        rig.open()
        self.assertEqual(rig.log().end, 160)

    def test_retention(self) -> None:
        """What retention has removed, or was about to, is no loss."""
        rig = Rig(LogSettings(segment_bytes=50, retention_bytes=50, retention_ms=-1))
        rig.filled(*[ENTRY] * 8)
        rig.store.expire()
        rig.threads.settle()
        rig.kill()
        rig.open()
        log = rig.log()
        self.assertEqual((log.offline, log.start, log.end), (None, 60, 160))


class KnownEndTests(SynchronousTestCase):
    """What is known from outside, when a store is opened."""

    def open(self, rig: Rig, known_end: int | None) -> PartitionLog:
        """Open with a known end of t-0."""
        rig.known_end = {("t", 0): known_end} if known_end is not None else {}
        rig.open()
        return rig.store.logs_of("t")[0]

    def test_below(self) -> None:
        """A log that reaches the known end is served; what lies before that end is not cut for being unsound."""
        rig = killed()
        self.assertEqual(self.open(rig, 160).offline, None)
        rig.kill()
        rig.files.remove(f"{FOLDER}/mark")
        rig.files.remove(f"{FOLDER}/checkpoint")
        rig.data(120)[10] ^= 1
        self.assertEqual(self.open(rig, 160).end, 160)

    def test_above(self) -> None:
        """A log that ends below it is offline, and nothing of it is touched."""
        rig = killed()
        rig.data(120).extend(b"torn")
        log = self.open(rig, 1000)
        self.assertIn("bytes 164 to 1000 are lost", str(log.offline))
        self.assertEqual(len(rig.data(120)), 44)

    def test_an_empty_folder(self) -> None:
        """A folder without a segment is no empty log, and nothing is made in it before that is asked for."""
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
    """The arithmetic."""

    def test_nothing(self) -> None:
        """An empty log, and one whose first name a crash took before anything was flushed, have lost nothing."""
        self.assertEqual(find_losses([], 0, 0), [])
        self.assertEqual(find_losses([], 60, 60), [])
        self.assertEqual(find_losses([(60, 20)], 0, 0), [])

    def test_too_long(self) -> None:
        """Bytes behind the next segment's start do not stand in for what is lost of that one."""
        self.assertEqual(find_losses([(0, 160), (60, 20), (120, 40)], 0, 160), [LostRange(80, 120, 60)])

    def test_highest_end(self) -> None:
        """The highest number that anything tells of counts; what cannot be read does not."""
        rig = killed()
        self.assertEqual(highest_end(rig.files, FOLDER), 160)
        for name in ("mark", "checkpoint"):
            rig.files.remove(f"{FOLDER}/{name}")
        self.assertEqual(highest_end(rig.files, FOLDER), 160)
        rig.files.errors[f"list {FOLDER}"] = [OSError(errno.EIO, "bad sector")]
        self.assertEqual(highest_end(rig.files, FOLDER), 0)
        self.assertEqual(highest_end(rig.files, f"{ROOT}/none-0"), 0)
