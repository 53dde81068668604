"""Tests of starts over data directories on a real disk that have something wrong in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import DataDirectoryError, PartitionOffline
from logd.log.disk.local_files import LocalFiles
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from tests.log.entries import plain
from tests.log.threads import Threads

ENTRY = plain(b"eleven more")
SETTINGS = LogSettings(segment_bytes=50, index_bytes=1)
#: Segments of partition t-0: 0-60, 60-120, 120-160.
LAST = "00000000000000000120"


class DamageTestCase(SynchronousTestCase):
    """Two partitions, t-0 and u-0, of eight entries each in three segments, stopped cleanly or killed."""

    def setUp(self) -> None:
        """Fill both partitions."""
        self.path = Path(os.path.abspath(self.mktemp()))
        self.folder = self.path / "t-0"
        self.reports: list[str] = []
        self.threads = Threads()
        self.store = self.new_store()
        self.store.open()
        self.addCleanup(lambda: self.store.close())
        for topic in "tu":
            log = self.store.create(topic, 0)
            for _ in range(8):
                log.append([ENTRY], 1, -1)
        self.threads.settle()

    def new_store(self) -> LogStore:
        """Return a store that is not open yet."""
        clock = Clock()
        clock.advance(1_000_000)
        return LogStore(str(self.path), LocalFiles(), clock, self.threads, SETTINGS, report=self.report)

    def report(self, format: str, **fields: object) -> None:  # noqa: A002
        """See LogStore."""
        self.reports.append(format.format(**fields))

    def start(self, damage: Callable[[], object]) -> PartitionLog:
        """Stop, do the damage and start; check that partition u-0 is served as ever, and return t-0."""
        self.store.flush_all(lambda: None)
        self.store.close()
        damage()
        self.reports.clear()
        self.store = self.new_store()
        self.store.open()
        other = self.store.create("u", 0)
        self.assertEqual((other.offline, other.end, self.content(other)), (None, 160, ENTRY * 8))
        return self.store.create("t", 0)

    def content(self, log: PartitionLog) -> bytes:
        """Return all bytes of a log."""
        content = b""
        while (found := log.read(log.start + len(content), 1000)) is not None:
            content += found.file.read_at(found.file_position, found.count)
            found.close()
        return content

    def replace(self, path: Path, kind: str) -> Callable[[], None]:
        """Return a function that puts something else in the place of a file."""

        def put() -> None:
            if path.is_dir():
                path.rename(path.with_name("elsewhere"))
            else:
                path.unlink(missing_ok=True)
            if kind == "folder":
                path.mkdir()
            elif kind == "loop":
                path.symlink_to(path)
            elif kind == "dangling":
                path.symlink_to("nowhere")
            elif kind == "file":
                path.write_bytes(b"what is this?")

        return put

    def is_offline(self, log: PartitionLog, path: Path) -> None:
        """Check that the log is offline, for a reason that names the file and says what to do."""
        self.assertIn(str(path), str(log.offline))
        self.assertIn("then restart the broker", str(log.offline))
        self.assertIn(str(log.offline), "\n".join(self.reports))
        for ask in (
            lambda: log.append([ENTRY], 1, -1),
            lambda: log.read(0, 100),
            lambda: log.offsets_before(-1, 1),
            lambda: log.find_boundary(0),
        ):
            self.assertRaises(PartitionOffline, ask)


class FileTests(DamageTestCase):
    """Other things in the place of a partition's files."""

    def test_an_unusable_last_segment_is_not_touched(self) -> None:
        """The partition is offline, and keeps its other files."""
        path = self.folder / f"{LAST}.log"
        for kind in ("folder", "loop", "dangling"):
            log = self.start(self.replace(path, kind))
            self.is_offline(log, path)
            self.assertEqual((self.folder / f"{0:020}.log").read_bytes(), ENTRY * 3)
            self.start(self.replace(path, "file"))  # for the next turn: that is damage of another kind

    def test_a_file_put_back_is_served(self) -> None:
        """The next start takes the partition into service again."""
        path = self.folder / f"{LAST}.log"
        aside = self.path.parent / "aside"

        def put_aside() -> None:
            path.rename(aside)
            path.mkdir()

        def put_back() -> None:
            path.rmdir()
            aside.rename(path)

        self.is_offline(self.start(put_aside), path)
        self.assertEqual(self.content(self.start(put_back)), ENTRY * 8)

    def test_an_unusable_closed_segment_takes_it_offline(self) -> None:
        """Messages would be missing without a word otherwise."""
        for kind in ("folder", "loop", "dangling"):
            path = self.folder / f"{60:020}.log"
            self.is_offline(self.start(self.replace(path, kind)), path)

    def test_an_unreadable_checkpoint_takes_it_offline(self) -> None:
        """Without its start nothing may be cut; one that is merely damaged counts as missing."""
        path = self.folder / "checkpoint"
        for kind in ("folder", "loop"):
            self.is_offline(self.start(self.replace(path, kind)), path)
        log = self.start(self.replace(path, "file"))
        self.assertEqual(self.content(log), ENTRY * 8)
        self.assertIn("is damaged", "\n".join(self.reports))

    def test_a_wrong_mark_costs_nothing(self) -> None:
        """The mark is only a hint."""
        for kind in ("folder", "loop", "file", "nothing"):
            self.assertEqual(self.content(self.start(self.replace(self.folder / "mark", kind))), ENTRY * 8)

    def test_a_wrong_index_is_made_again(self) -> None:
        """The index may be the last segment's or another's, and anything may be in its place."""
        for start in ("0" * 20, LAST):
            path = self.folder / f"{start}.index"
            for kind in ("folder", "loop", "dangling", "file", "nothing"):
                log = self.start(self.replace(path, kind))
                self.assertEqual(self.content(log), ENTRY * 8)
                self.assertEqual([log.find_boundary(at) for at in (25, 59, 130)], [20, 40, 120])
            for size in (0, 10, 20, 50):
                if path.is_dir():
                    path.rmdir()
                log = self.start(lambda path=path, size=size: path.write_bytes(b"x" * size))  # type: ignore[misc]
                self.assertEqual([log.find_boundary(at) for at in (25, 59, 130)], [20, 40, 120])

    def test_a_folder_named_like_a_leftover_stays(self) -> None:
        """A partition that cannot write because of it says so."""
        log = self.start((self.folder / "notes.tmp").mkdir)
        self.assertEqual(self.content(log), ENTRY * 8)
        (self.folder / "checkpoint.tmp").mkdir()
        log = self.start((self.folder / "checkpoint").unlink)
        self.is_offline(log, self.folder / "checkpoint.tmp")


class FolderTests(DamageTestCase):
    """Other things in the data directory."""

    def test_a_wrong_thing_in_a_folders_place_is_offline(self) -> None:
        """The name may be that of a partition on a disk that is not there."""
        for kind in ("loop", "dangling", "file"):
            log = self.start(self.replace(self.folder, kind))
            self.is_offline(log, self.folder)

    def test_foreign_names_are_left_alone(self) -> None:
        """Foreign names are reported, and keep no partition from service."""
        names = ("notes.deleted", "x.deleted", "loop-0", "dangling", "pipe-0", "0", "-0", "a b-0", "t-00", "é-0")

        def put() -> None:
            (self.path / "notes.deleted").write_text("mine")
            (self.path / "x.deleted").mkdir()
            (self.path / "x.deleted" / "inside").mkdir()
            (self.path / "loop-0").symlink_to("loop-0")
            (self.path / "dangling").symlink_to("nowhere")
            os.mkfifo(self.path / "pipe-0")
            for name in names[5:]:
                (self.path / name).mkdir()

        self.start(put)
        for name in names:
            self.assertTrue(os.path.lexists(self.path / name), name)
            self.assertIn(str(self.path / name), "\n".join(self.reports))

    def test_a_failed_removal_is_repeated(self) -> None:
        """The failure is reported, and the next start removes the folder."""
        leaving = self.path / "0a1b2c3d-0000-4000-8000-00000000abcd.deleted"

        def put() -> None:
            leaving.mkdir()
            (leaving / "folder").mkdir()

        self.start(put)
        self.assertIn("tries again", self.reports[0])
        self.start((leaving / "folder").rmdir)
        self.assertFalse(leaving.exists())

    def test_an_unreadable_list_of_topics_stops_the_start(self) -> None:
        """Partitions would get wrong settings."""
        path = self.path / "topics.json"
        for kind in ("folder", "loop"):
            self.replace(path, kind)()
            topics = TopicsFile(LocalFiles(), str(self.path))
            error = self.assertRaises(DataDirectoryError, topics.read)
            self.assertIn(str(path), str(error))
            self.assertIn("move it away", str(error))

    def test_a_new_file_system_counts_as_empty(self) -> None:
        """A new file system brings lost+found with it."""
        self.path = self.path.parent / "other"
        (self.path / "lost+found").mkdir(parents=True)
        store = self.new_store()
        store.open()
        store.close()

    def test_an_unreadable_identity_stops_the_start(self) -> None:
        """The directory might be another broker's; neither meta nor its copy can be read."""
        path = self.path / "meta"
        (self.path / "meta.copy").unlink()
        for kind in ("folder", "loop", "file"):
            error = self.assertRaises(DataDirectoryError, self.start, self.replace(path, kind))
            self.assertIn(str(path), str(error))
