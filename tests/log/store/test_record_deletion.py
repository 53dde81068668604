"""Tests of logd.log.store.record_deletion: a log that begins inside a segment, durably before that is answered."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import OffsetOutOfRange, PartitionOffline
from logd.log.damage.inspection import read_places
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint
from logd.log.recovery.lost_segments import BytesLost
from tests.log.entries import batch, plain, record
from tests.log.rig import ROOT, Rig

#: 20 bytes.
ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"


class Asked:
    """A deletion that was asked for, with its answers."""

    def __init__(self, rig: Rig, log: PartitionLog, position: int) -> None:
        self.answers: list[BaseException | None] = []
        rig.store.delete_before(log, position, self.answers.append)


class RecordDeletionTests(SynchronousTestCase):
    """Deletions in a log of entries of 20 bytes, three in a segment."""

    def setUp(self) -> None:
        """Fill two and a half segments."""
        self.rig = Rig(LogSettings(segment_bytes=50, retention_ms=-1))
        self.log = self.rig.filled(*[ENTRY] * 8)
        self.assertEqual(self.log.segment_list.starts, (0, 60, 120))

    def delete(self, position: int) -> BaseException | None:
        """Delete what is before a position; return the one answer."""
        asked = Asked(self.rig, self.log, position)
        self.rig.threads.settle()
        (answer,) = asked.answers
        return answer

    def segments(self) -> list[int]:
        """Return the starts of the segment files."""
        return sorted(int(name[:-4]) for name in self.rig.files.list(FOLDER) if name.endswith(".log"))

    def test_the_start_inside_a_segment(self) -> None:
        """Segments before it go, that one stays, and nothing below the start can be read, also after a restart."""
        self.assertIsNone(self.delete(80))
        for _ in range(2):
            self.assertEqual((self.log.start, self.log.end, self.segments()), (80, 160, [60, 120]))
            self.assertEqual(self.rig.content(self.log), ENTRY * 4)
            with self.assertRaises(OffsetOutOfRange):
                self.log.read(79, 10)
            self.assertEqual([self.log.find_boundary(position) for position in (80, 99, 100)], [80, 80, 100])
            self.assertEqual(self.log.position_at_time(0), 80)
            self.assertEqual(self.log.offsets_before(-2, 1), [80])
            self.assertEqual(self.log.offsets_before(-1, 9), [160, 120, 80])
            self.rig.stop()
            self.rig.open()
            self.log = self.rig.log()

    def test_a_position_inside_an_entry(self) -> None:
        """Entries stay whole: the log begins with the one that contains the position."""
        self.assertIsNone(self.delete(99))
        self.assertEqual(self.log.start, 80)
        self.rig.filled(batch(record(b"a"), record(b"b", 1)))
        self.assertIsNone(self.delete(self.log.end - 1))
        self.assertEqual((self.log.start, self.segments()), (160, [120]))

    def test_everything(self) -> None:
        """A new segment takes the last one's place, and appends go on behind it."""
        self.assertIsNone(self.delete(160))
        self.assertEqual((self.log.start, self.log.end, self.segments()), (160, 160, [160]))
        self.assertEqual(self.log.append([ENTRY], 1, -1), 160)
        self.rig.threads.settle()
        self.rig.stop()
        self.rig.open()
        self.assertEqual(self.rig.content(self.rig.log()), ENTRY)

    def test_the_answer_comes_after_the_disk_has_it(self) -> None:
        """A loss of power at any moment before it leaves the old start or the new one, and after it the new one."""
        for steps in range(6):
            rig = Rig(LogSettings(segment_bytes=50, retention_ms=-1))
            log = rig.filled(*[ENTRY] * 8)
            asked = Asked(rig, log, 90)
            for _ in range(steps):
                if rig.threads.works:
                    rig.threads.work(0)
                elif rig.threads.outcomes:
                    rig.threads.deliver(0)
            answered = bool(asked.answers)
            rig.kill(power_lost=True)
            rig.open()
            found = rig.log().start
            self.assertIn(found, (80,) if answered else (0, 80), steps)
            self.assertEqual(rig.content(rig.log()), ENTRY * ((160 - found) // 20))
        self.assertTrue(answered)

    def test_what_is_deleted_already(self) -> None:
        """The start never moves back."""
        self.assertIsNone(self.delete(100))
        for position in (100, 40, 0):
            self.assertIsNone(self.delete(position))
            self.assertEqual(self.log.start, 100)

    def test_what_cannot_be_deleted(self) -> None:
        """Past the visible end there is nothing, and an offline partition is not touched."""
        self.log.append([ENTRY], 1, -1)
        for position in (161, 180, 1 << 60):
            (answer,) = Asked(self.rig, self.log, position).answers
            self.assertIsInstance(answer, OffsetOutOfRange)
        self.log.go_offline(OSError("gone"))
        self.assertIsInstance(self.delete(20), PartitionOffline)

    def test_a_disk_that_fails(self) -> None:
        """The answer is the error; the next upkeep makes the start durable."""
        self.rig.files.errors["rename"] = [OSError(errno.EIO, "input/output error")]
        self.assertIsInstance(self.delete(80), OSError)
        self.assertEqual(self.log.start, 80)
        self.rig.store.write_checkpoints()
        self.rig.threads.settle()
        self.assertEqual(read_checkpoint(self.rig.files, FOLDER), Checkpoint(80, 160))
        self.assertEqual(self.segments(), [60, 120])

    def test_a_full_disk(self) -> None:
        """The files of whole segments make room for the checkpoint."""
        self.rig.store.write_checkpoints()
        self.rig.threads.settle()
        self.rig.files.room = 0
        self.assertIsNone(self.delete(140))
        self.assertEqual((self.log.start, self.segments()), (140, [120]))
        self.rig.files.room = None
        self.rig.kill(power_lost=True)
        self.rig.open()
        self.assertEqual(self.rig.log().start, 140)

    def test_a_file_that_is_lost(self) -> None:
        """The segment in which the log begins is missed like any other."""
        self.assertIsNone(self.delete(80))
        self.rig.stop()
        self.rig.files.remove(self.rig.path(60))
        self.rig.open()
        self.assertIsInstance(self.rig.log().offline, BytesLost)

    def test_several_at_once(self) -> None:
        """Each is answered once its own start is durable, also while an upkeep of the partition is under way."""
        self.rig.store.write_checkpoints()
        asked = [Asked(self.rig, self.log, position) for position in (40, 100, 60, 140)]
        self.rig.threads.settle()
        self.assertEqual([each.answers for each in asked], [[None]] * 4)
        self.assertEqual((self.log.start, read_checkpoint(self.rig.files, FOLDER)), (140, Checkpoint(140, 160)))

    def test_a_segment_that_was_just_rolled(self) -> None:
        """Its file goes while the next sync is under way, which does not need it."""
        self.log.append([ENTRY], 1, -1)
        self.log.append([ENTRY], 1, -1)  # begins a segment during the sync of the last one
        self.rig.threads.work()
        self.rig.threads.deliver()
        asked = Asked(self.rig, self.log, self.log.visible_end)
        self.rig.threads.work(1)  # the upkeep; the sync of the new segment is slower
        self.assertEqual(self.segments(), [180])
        self.rig.threads.settle()
        self.assertEqual((asked.answers, self.log.offline, self.log.visible_end), ([None], None, 200))

    def test_a_topic_that_is_deleted_meanwhile(self) -> None:
        """The deletion of records ends with an error, whether it is looked for, or written, or waits for its turn."""
        for works in range(3):
            rig = Rig(LogSettings(segment_bytes=50))
            log = rig.filled(*[ENTRY] * 8)
            asked = Asked(rig, log, 90)
            for _ in range(works):
                rig.threads.work(0) if rig.threads.works else None
                rig.threads.deliver(0) if rig.threads.outcomes else None
            answered = list(asked.answers)
            gone: list[BaseException | None] = []
            rig.store.delete("t", gone.append)
            rig.threads.settle()
            self.assertEqual(gone, [None])
            self.assertEqual(len(asked.answers), 1)
            self.assertTrue(answered or isinstance(asked.answers[0], PartitionOffline), asked.answers)

    def test_retention_goes_on(self) -> None:
        """It counts segments as before, and never moves the start back."""
        self.assertIsNone(self.delete(80))
        self.rig.store.configure("t", LogSettings(segment_bytes=50, retention_bytes=20))
        self.rig.store.expire()
        self.assertEqual((self.log.start, self.log.segment_list.starts), (120, (120,)))
        self.rig.threads.settle()
        self.assertEqual(read_checkpoint(self.rig.files, FOLDER), Checkpoint(120, 160))

    def test_a_check_of_the_folder(self) -> None:
        """It finds nothing wrong."""
        self.assertIsNone(self.delete(80))
        self.rig.stop()
        places = read_places(self.rig.files, FOLDER)
        self.assertEqual(([place.start for place in places.segments], places.has_losses), ([60, 120], False))
        self.assertEqual([remark for remark in places.remarks if remark.wrong], [])
