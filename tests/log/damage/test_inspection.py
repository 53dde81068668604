"""Tests of logd.log.damage.inspection, datadirectory and records: what is said of folders, indexes and segments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import DataDirectoryError
from logd.log.damage.data_directory import read_contents
from logd.log.damage.inspection import Remark, SegmentInspection, read_places
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.records import read_records
from logd.log.disk.names import index_name, join, segment_name
from logd.log.recovery.checkpoint import Checkpoint, write_checkpoint
from logd.log.store.topics_file import TopicsFile
from logd.protocol.checksums import CHECKSUMS, INDEPENDENT_CHECKSUMS
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.wrapper import encode_wrapper
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.log.entries import gap, plain, timed
from tests.log.rig import ROOT, Rig

SMALL = LogSettings(segment_bytes=50, index_bytes=1)
FOLDER = join(ROOT, "t-0")


class Racing:
    """A disk on which something happens just before one call."""

    def __init__(self, files: MemoryFiles, call: str, path: str, then: Callable[[], None]) -> None:
        self.files, self.call, self.path, self.then = files, call, path, then

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.files, name)
        if name != self.call:
            return found

        def call(path: str) -> Any:
            if path == self.path and self.call:
                self.call = ""
                self.then()
            return found(path)

        return call


class InspectionTestCase(SynchronousTestCase):
    """A data directory with one partition in four segments of three entries or fewer, stopped cleanly."""

    def setUp(self) -> None:
        """Fill it."""
        self.rig = Rig(SMALL)
        self.rig.filled(*[plain(b"eleven more")] * 10)
        self.rig.stop()
        TopicsFile(self.rig.files, ROOT).write({"t": TopicEntry("u", {0: (0,)})})

    @property
    def files(self) -> MemoryFiles:
        """The disk."""
        return self.rig.files

    def remarks(self, path: str = ROOT) -> list[Remark]:
        """Everything that is said, but of damaged entries."""
        contents = read_contents(self.files, path)
        found = list(contents.remarks)
        for place in contents.segments:
            with SegmentInspection.open(self.files, place, INDEPENDENT_CHECKSUMS) as inspection:
                for _ in inspection.run():
                    pass
                found += inspection.index_remarks()
        return found

    def damages(self, path: str = ROOT) -> list[tuple[int, int, DamageKind]]:
        """Offset, size and kind of each damage."""
        found = []
        for place in read_contents(self.files, path).segments:
            with SegmentInspection.open(self.files, place, CHECKSUMS) as inspection:
                for _ in inspection.run():
                    pass
            found += [(place.start + each.position, each.size, each.kind) for each in inspection.damages]
        return found

    def assert_missing(self, start: int, end: int) -> None:
        """The log's first segments are missing, and it is said which."""
        (missing,) = read_contents(self.files, ROOT).missing
        reason = f"{self.rig.path(start)} is missing: bytes {start} to {end} are lost"
        self.assertEqual(missing.damage, Damage(0, end - start, DamageKind.MISSING, reason))
        self.assertEqual((missing.place.start, missing.place.folder), (start, FOLDER))

    def assert_remark(self, name: str, words: str, wrong: bool) -> None:
        """There is one remark, and it is so."""
        (remark,) = self.remarks()
        self.assertEqual((remark.path, remark.wrong), (join(ROOT, name), wrong))
        self.assertIn(words, remark.text)

    def make(self, path: str, content: bytes = b"x") -> None:
        """Make a file, or give one that is there other bytes."""
        file = self.files.open(path, create=not self.files.exists(path))
        file.truncate(0)
        file.append([content])
        file.close()


class DirectoryTests(InspectionTestCase):
    """What is in the folders."""

    def test_sound(self) -> None:
        """Of a directory that is sound there is nothing to say, and no file is left open."""
        before = self.files.open_handles
        self.assertEqual((self.remarks(), self.damages()), ([], []))
        self.assertEqual(len(read_contents(self.files, ROOT).segments), 4)
        self.assertEqual(self.files.open_handles, before)

    def test_parts(self) -> None:
        """A partition's folder and a segment can be looked at alone, and know their data directory."""
        self.files.remove(join(FOLDER, segment_name(120)))
        for path, starts in ((FOLDER, [0, 60, 180]), (join(FOLDER, segment_name(60)), [60])):
            contents = read_contents(self.files, path)
            self.assertEqual([place.start for place in contents.segments], starts)
            self.assertEqual(contents.data_directory, ROOT)
        for path in (join(FOLDER, "checkpoint"), "/"):
            self.assertRaises(DataDirectoryError, read_contents, self.files, path)

    def test_foreign(self) -> None:
        """Files that are not logd's are named, and are no harm; what a start gave up is."""
        for path, wrong in (
            ("lost+found", False),
            ("t-0/notes.txt", False),
            ("t-0/checkpoint.tmp", False),
            ("t-0/00000000000000000007.index", False),
            ("t-0/00000000000000000060.log.dropped", True),
        ):
            self.make(join(ROOT, path))
            (remark,) = self.remarks()
            self.assertEqual((remark.path, remark.wrong), (join(ROOT, path), wrong))
            self.files.remove(join(ROOT, path))

    def test_meta(self) -> None:
        """Damaged files of the directory are harm."""
        self.make(join(ROOT, "meta"), b"{}")
        self.assert_remark("meta", "damaged", True)

    def test_topics(self) -> None:
        """topics.json is held against the folders; a damaged one is harm."""
        self.make(join(ROOT, "topics.json"), b"[")
        self.assert_remark("topics.json", "damaged", True)
        TopicsFile(self.files, ROOT).write({"t": TopicEntry("u", {0: (0,), 1: (0,)})})
        self.assert_remark("t-1", "is missing", True)
        TopicsFile(self.files, ROOT).write({"t": TopicEntry("u", {0: (0,), 1: (7,)})})
        self.assertEqual(self.remarks(), [], "what another broker stores is not missing here")
        TopicsFile(self.files, ROOT).write({})
        self.assert_remark("t-0", "no topic", False)

    def test_checkpoint(self) -> None:
        """A damaged checkpoint is harm, a missing one is worth knowing."""
        self.files._inode(join(FOLDER, "checkpoint")).data[20] ^= 1
        self.assert_remark("t-0/checkpoint", "damaged", True)
        self.files.remove(join(FOLDER, "checkpoint"))
        self.assert_remark("t-0/checkpoint", "missing", False)

    def test_lost_start(self) -> None:
        """Segments that are missing at the log's start are harm; what retention let go and has not removed is none."""
        self.files.remove(self.rig.path(0))
        self.files.remove(join(FOLDER, index_name(0)))
        self.assert_missing(0, 60)
        write_checkpoint(self.files, FOLDER, Checkpoint(120, 200))
        self.rig.data(60)[20] ^= 1
        self.assertEqual((self.remarks(), self.damages()), ([], []))

    def test_lost_in_the_middle(self) -> None:
        """Segments that are missing in the middle, or short, are harm; the damage names the file."""
        self.files.remove(self.rig.path(60))
        del self.rig.data(120)[20:]
        self.assertEqual(self.damages(), [(60, 60, DamageKind.SHORT), (140, 40, DamageKind.SHORT)])
        losses = [place.loss for place in read_contents(self.files, ROOT).segments]
        self.assertIn(f"{self.rig.path(60)} is missing", losses[0])
        self.assertIn(f"{self.rig.path(120)} has lost its end", losses[1])

    def test_a_removal_meanwhile(self) -> None:
        """What retention removes while it is looked at is no loss."""
        for call, path in (("list", FOLDER), ("size", self.rig.path(0))):
            self.setUp()

            def retention() -> None:
                write_checkpoint(self.files, FOLDER, Checkpoint(60, 200))
                self.files.remove(self.rig.path(0))

            places = read_places(Racing(self.files, call, path, retention), FOLDER)  # type: ignore[arg-type]
            self.assertEqual((places.has_losses, places.segments[0].start), (False, 60))

    def test_all_gone(self) -> None:
        """So are all segments."""
        for start in (0, 60, 120, 180):
            self.files.remove(self.rig.path(start))
            self.files.remove(join(FOLDER, index_name(start)))
        self.assert_missing(0, 200)


class IndexTests(InspectionTestCase):
    """What is said of indexes."""

    def test_missing(self) -> None:
        """An index that is missing is worth knowing."""
        self.files.remove(join(FOLDER, index_name(60)))
        self.assert_remark(f"t-0/{index_name(60)}", "missing", False)

    def test_damaged(self) -> None:
        """One whose checksum does not hold is harm."""
        self.files._inode(join(FOLDER, index_name(60))).data[40] ^= 1
        self.assert_remark(f"t-0/{index_name(60)}", "damaged", True)

    def test_of_other_entries(self) -> None:
        """One that says that entries begin where none does is harm, and names the id."""
        self.rig.data(60)[:] = plain(b"x" * 51)
        self.assert_remark(f"t-0/{index_name(60)}", "an entry begins at 80", True)

    def test_half(self) -> None:
        """One that does not reach the segment's end is worth knowing: a crash leaves it."""
        data = self.files._inode(join(FOLDER, index_name(60))).data
        del data[16:]
        self.assert_remark(f"t-0/{index_name(60)}", "does not reach", False)


class SegmentTests(InspectionTestCase):
    """Where damage lies."""

    def test_closed(self) -> None:
        """In a closed segment all has to be sound, up to where the next begins."""
        self.rig.data(60)[-1] ^= 1
        del self.rig.data(120)[40:]
        self.rig.data(0).append(0)
        self.assertEqual(
            self.damages(), [(60, 1, DamageKind.EXCESS), (100, 20, DamageKind.PAYLOAD), (160, 20, DamageKind.SHORT)]
        )

    def test_missing_segment(self) -> None:
        """The place of a segment that is gone is a gap at the end of the one before it."""
        self.files.remove(self.rig.path(60))
        self.files.remove(join(FOLDER, index_name(60)))
        self.assertEqual(self.damages(), [(60, 60, DamageKind.SHORT)])

    def test_flushed_end(self) -> None:
        """In the last one all has to be that is behind neither checkpoint nor mark."""
        self.rig.data(180)[-1] ^= 1
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        self.files.remove(join(FOLDER, "checkpoint"))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        write_checkpoint(self.files, FOLDER, Checkpoint(0, 180))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        self.files.remove(join(FOLDER, "mark"))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.TAIL)])

    def test_short_last(self) -> None:
        """A last segment that is shorter than what was flushed lacks the rest."""
        del self.rig.data(180)[7:]
        self.assertEqual(self.damages(), [(180, 20, DamageKind.SHORT)])


class RecordTests(SynchronousTestCase):
    """The entries as ``logd dump`` shows them."""

    def setUp(self) -> None:
        """A segment with one of everything."""
        self.rig = Rig(LogSettings(index_bytes=1))
        wrapper = MessageSet([Message(b"w1"), Message(b"w2", key=b"k")], "zstd").encode()
        self.sets = [plain(b"one"), timed(b"two", 77), wrapper, gap(30), plain(b"\xff\xfe"), plain(b"last" * 30)]
        self.rig.filled(*self.sets)
        self.rig.stop()
        (self.place,) = read_contents(self.rig.files, self.rig.path()).segments

    def rows(self, start: int = 0, expand: bool = False) -> list[tuple[object, ...]]:
        """Some columns."""
        records = read_records(self.rig.files, self.place, start, expand, 10)
        return [(r.id, r.next_position, r.magic, r.codec, r.timestamp, r.payload, bool(r.problem)) for r in records]

    def test_all(self) -> None:
        """Each entry once, with its place, and no more of its payload than asked for."""
        ends = [sum(map(len, self.sets[:number])) for number in range(7)]
        contents = [
            (0, "none", None, b"one", False),
            (2, "none", 77, b"two", False),
            (1, "zstd", None, None, False),
            (0x7F, None, None, None, False),
            (0, "none", None, b"\xff\xfe", False),
            (0, "none", None, b"lastlastla", False),
        ]
        expected = [(ends[n], ends[n + 1], *each) for n, each in enumerate(contents)]
        self.assertEqual(self.rows(), expected)
        self.assertEqual(self.rows(13), expected[2:])
        self.assertEqual(self.rows(ends[6]), [])

    def test_expand(self) -> None:
        """The messages of a wrapper come behind it, at their places."""
        inside = [row for row in self.rows(expand=True) if row[5] in (b"w1", b"w2")]
        start = len(self.sets[0] + self.sets[1])
        end = start + len(self.sets[2])
        self.assertEqual([row[:2] for row in inside], [(start, end - 1), (end - 1, end)])

    def test_too_large_to_expand(self) -> None:
        """A wrapper of more messages than a reader opens is sound, and said to be too large."""
        self.rig = Rig(LogSettings(index_bytes=1))
        self.rig.filled(encode_wrapper("gzip", plain(b"") * 1_000_001), plain(b"one"))
        self.rig.stop()
        (self.place,) = read_contents(self.rig.files, self.rig.path()).segments
        first, second = read_records(self.rig.files, self.place, 0, True, 10)
        self.assertEqual((first.problem, second.payload), ("", b"one"))
        self.assertIn("max_decompressed_messages", json.loads(first.to_json())["unopened"])

    def test_damaged(self) -> None:
        """What is not sound is shown as such, and what follows it too."""
        self.rig.data()[2] ^= 1
        self.assertEqual([row[-1] for row in self.rows()], [True, False, False, False, False, False])

    def test_json(self) -> None:
        """Bytes that are no text are in base64, in a field that says so."""
        records = [json.loads(r.to_json()) for r in read_records(self.rig.files, self.place, 0, False, 100)]
        self.assertEqual((records[0]["payload"], records[0]["crc_ok"]), ("one", True))
        self.assertEqual(records[4]["payload_base64"], "//4=")
