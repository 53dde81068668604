"""Tests of logd.log.damage.inspection, data_directory and records: remarks on folders, indexes and segments."""

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
    """A disk on which something else happens just before one call."""

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
        """Fill the partition, and write topics.json."""
        self.rig = Rig(SMALL)
        self.rig.filled(*[plain(b"eleven more")] * 10)
        self.rig.stop()
        TopicsFile(self.rig.files, ROOT).write({"t": TopicEntry("u", {0: (0,)})})

    @property
    def files(self) -> MemoryFiles:
        """The disk."""
        return self.rig.files

    def remarks(self, path: str = ROOT) -> list[Remark]:
        """Return all remarks, but those about damaged entries."""
        contents = read_contents(self.files, path)
        found = list(contents.remarks)
        for place in contents.segments:
            with SegmentInspection.open(self.files, place, INDEPENDENT_CHECKSUMS) as inspection:
                for _ in inspection.run():
                    pass
                found += inspection.index_remarks()
        return found

    def damages(self, path: str = ROOT) -> list[tuple[int, int, DamageKind]]:
        """Return offset, size and kind of each damage."""
        found = []
        for place in read_contents(self.files, path).segments:
            with SegmentInspection.open(self.files, place, CHECKSUMS) as inspection:
                for _ in inspection.run():
                    pass
            found += [(place.start + each.position, each.size, each.kind) for each in inspection.damages]
        return found

    def assert_missing(self, start: int, end: int) -> None:
        """Check that the log's first segments are missing, and that the reason names the file and the bytes."""
        (missing,) = read_contents(self.files, ROOT).missing
        reason = f"{self.rig.path(start)} is missing: bytes {start} to {end} are lost"
        self.assertEqual(missing.damage, Damage(0, end - start, DamageKind.MISSING, reason))
        self.assertEqual((missing.place.start, missing.place.folder), (start, FOLDER))

    def assert_remark(self, name: str, words: str, wrong: bool) -> None:
        """Check that there is this one remark."""
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
    """The contents of the folders."""

    def test_a_sound_directory_has_no_remark(self) -> None:
        """No file is left open either."""
        before = self.files.open_handles
        self.assertEqual((self.remarks(), self.damages()), ([], []))
        self.assertEqual(len(read_contents(self.files, ROOT).segments), 4)
        self.assertEqual(self.files.open_handles, before)

    def test_a_folder_or_segment_can_be_inspected_alone(self) -> None:
        """Each knows its data directory."""
        self.files.remove(join(FOLDER, segment_name(120)))
        for path, starts in ((FOLDER, [0, 60, 180]), (join(FOLDER, segment_name(60)), [60])):
            contents = read_contents(self.files, path)
            self.assertEqual([place.start for place in contents.segments], starts)
            self.assertEqual(contents.data_directory, ROOT)
        for path in (join(FOLDER, "checkpoint"), "/"):
            self.assertRaises(DataDirectoryError, read_contents, self.files, path)

    def test_foreign_files_are_named_as_harmless(self) -> None:
        """A segment that a start has put aside is harm, for it held messages."""
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

    def test_a_damaged_meta_is_harm(self) -> None:
        """A broker finds its identity there."""
        self.make(join(ROOT, "meta"), b"{}")
        self.assert_remark("meta", "damaged", True)

    def test_a_topic_made_meanwhile_is_whole(self) -> None:
        """A broker that is using the directory has made the partition's folder before it wrote topics.json."""

        def create() -> None:
            self.files.make_directory(join(ROOT, "new-0"))
            TopicsFile(self.files, ROOT).write({"t": TopicEntry("u", {0: (0,)}), "new": TopicEntry("v", {0: (0,)})})

        racing = Racing(self.files, "exists", join(ROOT, "topics.json"), create)
        self.assertEqual([each for each in read_contents(racing, ROOT).remarks if each.wrong], [])  # type: ignore[arg-type]

    def test_topics_json_must_match_the_folders(self) -> None:
        """A folder that is missing is harm, one without a topic is not."""
        self.make(join(ROOT, "topics.json"), b"[")
        self.assert_remark("topics.json", "damaged", True)
        TopicsFile(self.files, ROOT).write({"t": TopicEntry("u", {0: (0,), 1: (0,)})})
        self.assert_remark("t-1", "is missing", True)
        TopicsFile(self.files, ROOT).write({"t": TopicEntry("u", {0: (0,), 1: (7,)})})
        self.assertEqual(self.remarks(), [], "what another broker stores is not missing here")
        TopicsFile(self.files, ROOT).write({})
        self.assert_remark("t-0", "no topic", False)

    def test_a_damaged_checkpoint_is_harm(self) -> None:
        """A missing one is worth a remark only."""
        self.files._inode(join(FOLDER, "checkpoint")).data[20] ^= 1
        self.assert_remark("t-0/checkpoint", "damaged", True)
        self.files.remove(join(FOLDER, "checkpoint"))
        self.assert_remark("t-0/checkpoint", "missing", False)

    def test_a_missing_first_segment_is_harm(self) -> None:
        """Segments that retention has expired and not yet removed are none."""
        self.files.remove(self.rig.path(0))
        self.files.remove(join(FOLDER, index_name(0)))
        self.assert_missing(0, 60)
        write_checkpoint(self.files, FOLDER, Checkpoint(120, 200))
        self.rig.data(60)[20] ^= 1
        self.assertEqual((self.remarks(), self.damages()), ([], []))

    def test_a_hole_in_the_log_is_harm(self) -> None:
        """Missing and short segments are told apart, and named by their files."""
        self.files.remove(self.rig.path(60))
        del self.rig.data(120)[20:]
        self.assertEqual(self.damages(), [(60, 60, DamageKind.SHORT), (140, 40, DamageKind.SHORT)])
        losses = [place.loss for place in read_contents(self.files, ROOT).segments]
        self.assertIn(f"{self.rig.path(60)} is missing", losses[0])
        self.assertIn(f"{self.rig.path(120)} has lost its end", losses[1])

    def test_retention_may_remove_segments_meanwhile(self) -> None:
        """The inspection must not take a removal beside it for a loss."""
        for call, path in (("list", FOLDER), ("size", self.rig.path(0))):
            self.setUp()

            def retention() -> None:
                write_checkpoint(self.files, FOLDER, Checkpoint(60, 200))
                self.files.remove(self.rig.path(0))

            places = read_places(Racing(self.files, call, path, retention), FOLDER)  # type: ignore[arg-type]
            self.assertEqual((places.has_losses, places.segments[0].start), (False, 60))

    def test_a_log_without_segments_is_harm(self) -> None:
        """The checkpoint tells how much was there."""
        for start in (0, 60, 120, 180):
            self.files.remove(self.rig.path(start))
            self.files.remove(join(FOLDER, index_name(start)))
        self.assert_missing(0, 200)


class IndexTests(InspectionTestCase):
    """Remarks on indexes."""

    def test_a_missing_index_is_harmless(self) -> None:
        """A broker makes it again."""
        self.files.remove(join(FOLDER, index_name(60)))
        self.assert_remark(f"t-0/{index_name(60)}", "missing", False)

    def test_a_damaged_index_is_harm(self) -> None:
        """The checksum of a chunk does not hold."""
        self.files._inode(join(FOLDER, index_name(60))).data[40] ^= 1
        self.assert_remark(f"t-0/{index_name(60)}", "damaged", True)

    def test_an_index_of_other_entries_is_harm(self) -> None:
        """Such an index would lead readers into the middle of an entry; the remark names the id."""
        self.rig.data(60)[:] = plain(b"x" * 51)
        self.assert_remark(f"t-0/{index_name(60)}", "no entry begins at 80", True)

    def test_an_incomplete_index_is_harmless(self) -> None:
        """A crash leaves it so."""
        data = self.files._inode(join(FOLDER, index_name(60))).data
        del data[16:]
        self.assert_remark(f"t-0/{index_name(60)}", "does not reach", False)


class SegmentTests(InspectionTestCase):
    """The places of damage."""

    def test_a_closed_segment_must_be_sound_to_its_end(self) -> None:
        """The next segment tells where the end is."""
        self.rig.data(60)[-1] ^= 1
        del self.rig.data(120)[40:]
        self.rig.data(0).append(0)
        self.assertEqual(
            self.damages(), [(60, 1, DamageKind.EXCESS), (100, 20, DamageKind.PAYLOAD), (160, 20, DamageKind.SHORT)]
        )

    def test_a_missing_segment_shows_in_the_one_before(self) -> None:
        """The missing bytes become a gap at that segment's end."""
        self.files.remove(self.rig.path(60))
        self.files.remove(join(FOLDER, index_name(60)))
        self.assertEqual(self.damages(), [(60, 60, DamageKind.SHORT)])

    def test_flushed_bytes_must_be_sound(self) -> None:
        """Checkpoint or mark vouch for them; behind both, damage is a torn tail."""
        self.rig.data(180)[-1] ^= 1
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        self.files.remove(join(FOLDER, "checkpoint"))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        write_checkpoint(self.files, FOLDER, Checkpoint(0, 180))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.PAYLOAD)])
        self.files.remove(join(FOLDER, "mark"))
        self.assertEqual(self.damages(), [(180, 20, DamageKind.TAIL)])

    def test_a_short_last_segment_is_damage(self) -> None:
        """The segment was flushed further than it reaches now."""
        del self.rig.data(180)[7:]
        self.assertEqual(self.damages(), [(180, 20, DamageKind.SHORT)])


class RecordTests(SynchronousTestCase):
    """The entries, as ``logd dump`` shows them."""

    def setUp(self) -> None:
        """Make a segment with an entry of each kind."""
        self.rig = Rig(LogSettings(index_bytes=1))
        wrapper = MessageSet([Message(b"w1"), Message(b"w2", key=b"k")], "zstd").encode()
        self.sets = [plain(b"one"), timed(b"two", 77), wrapper, gap(30), plain(b"\xff\xfe"), plain(b"last" * 30)]
        self.rig.filled(*self.sets)
        self.rig.stop()
        (self.place,) = read_contents(self.rig.files, self.rig.path()).segments

    def rows(self, start: int = 0, expand: bool = False) -> list[tuple[object, ...]]:
        """Return some columns of the records."""
        records = read_records(self.rig.files, self.place, start, expand, 10)
        return [(r.id, r.next_position, r.magic, r.codec, r.timestamp, r.payload, bool(r.problem)) for r in records]

    def test_each_entry_is_shown_once(self) -> None:
        """A record has the entry's place, and no more of its payload than asked for."""
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

    def test_a_wrappers_messages_follow_it(self) -> None:
        """The messages have the places at which consumers see them."""
        inside = [row for row in self.rows(expand=True) if row[5] in (b"w1", b"w2")]
        start = len(self.sets[0] + self.sets[1])
        end = start + len(self.sets[2])
        self.assertEqual([row[:2] for row in inside], [(start, end - 1), (end - 1, end)])

    def test_an_oversized_wrapper_is_sound(self) -> None:
        """The wrapper has more messages than a reader opens, and the record says so."""
        self.rig = Rig(LogSettings(index_bytes=1))
        self.rig.filled(encode_wrapper("gzip", plain(b"") * 1_000_001), plain(b"one"))
        self.rig.stop()
        (self.place,) = read_contents(self.rig.files, self.rig.path()).segments
        first, second = read_records(self.rig.files, self.place, 0, True, 10)
        self.assertEqual((first.problem, second.payload), ("", b"one"))
        self.assertIn("max_decompressed_messages", json.loads(first.to_json())["unopened"])

    def test_a_damaged_entry_shows_its_problem(self) -> None:
        """The entries behind it are shown as usual."""
        self.rig.data()[2] ^= 1
        self.assertEqual([row[-1] for row in self.rows()], [True, False, False, False, False, False])

    def test_binary_payloads_are_in_base64(self) -> None:
        """The field has a name of its own, so that text is never mistaken."""
        records = [json.loads(r.to_json()) for r in read_records(self.rig.files, self.place, 0, False, 100)]
        self.assertEqual((records[0]["payload"], records[0]["crc_ok"]), ("one", True))
        self.assertEqual(records[4]["payload_base64"], "//4=")
