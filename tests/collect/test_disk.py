"""Tests of logd.collect.disk and of the names of rotated files."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.collect.descriptors import Descriptors
from logd.collect.disk import Disk, matches
from logd.collect.files import Seen
from logd.collect.rotation.names import Stems, is_compressed, related, stem
from logd.collect.source import SourceFile
from tests.collect.doubles import MemoryDisk, MemoryOpenFile


class DiskTests(SynchronousTestCase):
    """``Disk``."""

    def setUp(self) -> None:
        """Make a folder with files, links, a pipe and folders."""
        self.root = Path(os.path.abspath(self.mktemp()))
        (self.root / "sub" / "deep").mkdir(parents=True)
        for name in ("a.log", "b[1].log", "sub/c.log", "sub/deep/d.log"):
            (self.root / name).write_bytes(name.encode())
        os.mkfifo(self.root / "pipe.log")
        (self.root / "link.log").symlink_to("a.log")
        (self.root / "nowhere.log").symlink_to("missing")
        (self.root / "folder.log").mkdir()

    def found(self, *patterns: str) -> list[str]:
        """Return the paths that patterns find, relative to the root."""
        seen = Disk().find([f"{self.root}/{pattern}" for pattern in patterns])
        return [os.path.relpath(each.path, self.root) for each in seen]

    def test_regular_files_are_found_by_pattern(self) -> None:
        """Links are followed; each path comes once and in order, and a name with brackets is also a name."""
        self.assertEqual(self.found("*.log", "a.*"), ["a.log", "b[1].log", "link.log"])
        self.assertEqual(self.found("b[1].log"), ["b[1].log"])
        self.assertEqual(self.found("**/[cd].log"), ["sub/c.log", "sub/deep/d.log"])
        self.assertEqual(self.found("none", "sub"), [])

    def test_folders_of_any_depth_match_as_in_a_shell(self) -> None:
        """Hidden ones do not, nor what a name with brackets would match as a pattern; broken links do no harm."""
        (self.root / "sub" / ".hidden").mkdir()
        (self.root / "sub" / "[d]eep").mkdir()
        (self.root / "sub" / "itself").symlink_to("itself")
        for name in ("sub/.hidden/e.log", "sub/.f.log", "sub/[d]eep/g.log"):
            (self.root / name).write_bytes(b"")
        for pattern in ("**", "**/*.log", "**/deep/*", "*/**/*.log", "**/sub/**/*.log", "s[u]b/**", "none/**", "**/"):
            with self.subTest(pattern):
                found = glob.glob(f"{self.root}/{pattern}", recursive=True)  # may have a folder that is not there
                expected = {os.path.normpath(each) for each in found if os.path.lexists(each)}
                self.assertEqual({os.path.normpath(each) for each in matches(f"{self.root}/{pattern}")}, expected)

    def test_links_back_are_not_followed_for_ever(self) -> None:
        """With two of them the paths would be a million times a million."""
        for name in ("one", "two"):
            (self.root / name).mkdir()
            (self.root / name / "up").symlink_to("..")
        (self.root / "two" / "e.log").write_bytes(b"e")
        (self.root / "further").symlink_to("sub/deep")
        found = self.found("**/*.log")
        self.assertEqual(
            set(found) - {"a.log", "b[1].log", "link.log"},
            {"further/d.log", "sub/c.log", "sub/deep/d.log", "two/e.log"},
        )

    def test_a_file_keeps_its_identity_when_renamed(self) -> None:
        """An open file can be read on after it was removed."""
        disk = Disk()
        before, link = disk.find([f"{self.root}/a.log", f"{self.root}/link.log"])
        self.assertEqual((before.identity, before.size), (link.identity, 5))
        file = disk.open(before.path)
        os.rename(before.path, f"{self.root}/sub/moved")
        self.assertEqual(file.seen(), before)
        (after,) = disk.in_folder(f"{self.root}/sub", lambda name, inode: inode == before.inode) or []
        self.assertEqual((after.path, after.identity), (f"{self.root}/sub/moved", before.identity))
        os.remove(after.path)
        self.assertEqual((file.read(1, 3), file.read(4, 10), file.read(9, 1)), (b".lo", b"g", b""))
        file.close()
        with self.assertRaises(FileNotFoundError):
            disk.open(before.path)

    def test_a_folder_gives_the_wanted_regular_files(self) -> None:
        """A folder that is gone gives none, and one that cannot be listed gives no answer."""
        disk = Disk()
        found = disk.in_folder(str(self.root), lambda name, _: name[0] in "afp")
        self.assertEqual([os.path.basename(each.path) for each in found or ()], ["a.log"])
        for gone in ("gone", "a.log"):
            self.assertEqual(disk.in_folder(f"{self.root}/{gone}", lambda *_: True), [])
        self.assertIsNone(disk.in_folder(f"{self.root}/{'x' * 300}", lambda *_: True))

    def test_opening_a_pipe_does_not_block(self) -> None:
        """A log may be replaced by one between the look and the opening."""
        Disk().open(f"{self.root}/pipe.log").close()


class NamesTests(SynchronousTestCase):
    """Names of rotated files."""

    def test_a_rotated_name_begins_with_the_logs(self) -> None:
        """The extension may come behind the number, and the folder is the same."""
        for other in ("/l/app.log.1", "/l/app-20111111.log", "/l/app.log-2011", "/l/app.log"):
            self.assertTrue(related("/l/app.log", other), other)
        for other in ("/k/app.log.1", "/l/ap.log", "/l/sub/app.log.1"):
            self.assertFalse(related("/l/app.log", other), other)
        self.assertEqual(stem("/l/app.log.1"), "app.log")

    def test_an_index_of_names_finds_the_related_ones(self) -> None:
        """The result is the one of a comparison with each path."""
        paths = ["/l/app.log", "/l/a", "/l/b.log", "/k/app.log", "/l/app.log.1"]
        stems = Stems(paths)
        for path in (*paths, "/l/app.log.1.2", "/l/b-1.log", "/l/", "/m/x"):
            self.assertEqual(sorted(stems.of(path)), sorted(p for p in paths if p != path and related(p, path)), path)

    def test_compressed_files_are_known_by_their_endings(self) -> None:
        """Their bytes are no lines."""
        self.assertTrue(is_compressed("/l/a.log.1.gz"))
        self.assertFalse(is_compressed("/l/a.gz.log"))


class StaleFileTests(SynchronousTestCase):
    """A file that can be opened and not looked at, as a stale one of NFS."""

    def test_a_file_that_cannot_be_looked_at_is_closed(self) -> None:
        """Each look would keep another one open until there are no more."""
        disk = MemoryDisk()
        disk.append("/l/a.log", b"line\n")
        (seen,) = disk.find(["/l/a.log"])
        source = SourceFile("/l/a.log", seen.identity, "/l/a.log")
        descriptors = Descriptors(disk, 10)

        def stale(file: MemoryOpenFile) -> Seen:
            raise OSError(116, "Stale file handle")

        patch = self.patch(MemoryOpenFile, "seen", stale)
        for _ in range(3):
            self.assertRaises(OSError, descriptors.get, source)
        self.assertEqual((disk.open_now, len(descriptors)), (0, 0))
        patch.restore()
        self.assertIsNotNone(descriptors.get(source))
        self.assertEqual((disk.open_now, len(descriptors)), (1, 1))
