"""Tests of logd.log.disk.local_files: the local disk behind IFileOperations."""

from __future__ import annotations

import errno
import os
import stat

from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IFile, IFileOperations, IThreads
from logd.log.disk.local_files import LocalFiles
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads


class LocalFilesTests(SynchronousTestCase):
    """Every operation on real files."""

    def setUp(self) -> None:
        """A folder of its own."""
        self.folder = os.path.abspath(self.mktemp())
        self.files = LocalFiles()
        self.files.make_directory(self.folder)
        self.path = self.folder + "/file"

    def content(self) -> bytes:
        """What the file has."""
        with open(self.path, "rb") as file:
            return file.read()

    def test_interfaces(self) -> None:
        """The real ones and the doubles provide what they say."""
        for files in (self.files, MemoryFiles()):
            verifyObject(IFileOperations, files)
        memory = MemoryFiles()
        verifyObject(IFile, memory.open("/x", create=True))
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        verifyObject(IFile, file)
        verifyObject(IThreads, Threads())

    def test_modes(self) -> None:
        """Messages are for their owner and its group: nothing that is made can be read by everybody."""
        self.patch_umask(0)
        self.files.open(self.path, create=True).close()
        self.files.make_directory(self.folder + "/inside")
        self.files.lock(self.folder + "/meta").close()
        modes = {name: stat.S_IMODE(os.stat(f"{self.folder}/{name}").st_mode) for name in os.listdir(self.folder)}
        self.assertEqual(modes, {"file": 0o640, "inside": 0o750, "meta": 0o640})

    def patch_umask(self, mask: int) -> None:
        """Give the process another umask for this test."""
        self.addCleanup(os.umask, os.umask(mask))

    def test_a_link_is_not_locked(self) -> None:
        """A link in the place of the file to lock is refused, and its target is left as it is."""
        target = self.folder + "/target"
        with open(target, "w") as file:
            file.write("somebody's")
        os.symlink(target, self.folder + "/meta")
        refused = self.assertRaises(OSError, self.files.lock, self.folder + "/meta")
        self.assertEqual(refused.errno, errno.ELOOP)
        with open(target) as file:
            self.assertEqual(file.read(), "somebody's")

    def test_a_directory_of_another_owner(self) -> None:
        """Nothing is locked or made in it, and the error names both users."""
        if os.geteuid():
            raise SkipTest("to give a directory away needs root")
        os.chown(self.folder, 4711, -1)
        refused = self.assertRaises(PermissionError, self.files.lock, self.folder + "/meta")
        self.assertIn("user 4711 owns it, and this process runs as user 0", str(refused))
        self.assertEqual(os.listdir(self.folder), [])

    def test_append(self) -> None:
        """Appends of one buffer, of several, and of more than one system call takes follow one another."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        many = [bytes([number % 256]) * (number % 7) for number in range(3000)]
        self.assertEqual(file.append([b"one"]), 3)
        self.assertEqual(file.append([b"two", b"", b"three"]), 8)
        self.assertEqual(file.append(many), len(b"".join(many)))
        self.assertEqual(self.content(), b"onetwothree" + b"".join(many))
        self.assertEqual(file.size(), len(self.content()))

    def test_append_after_reopening_truncating_and_overwriting(self) -> None:
        """An append goes to the end as it then is."""
        file = self.files.open(self.path, create=True)
        file.append([b"0123456789"])
        file.close()
        file.close()
        file = self.files.open(self.path)
        self.addCleanup(file.close)
        file.append([b"abc"])
        file.truncate(11)
        file.write_at(2, b"XY")
        file.append([b"d"])
        self.assertEqual(self.content(), b"01XY456789ad")

    def test_read(self) -> None:
        """Reads give what is there, fewer bytes only at the end; the cache has what was just written."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        file.append([b"0123456789"])
        self.assertEqual((file.read_at(2, 3), file.read_at(8, 10), file.read_at(10, 5)), (b"234", b"89", b""))
        self.assertEqual((file.read_cached(2, 3), file.read_cached(8, 10)), (b"234", b"89"))
        self.assertTrue(file.is_cached(0, 10))
        file.sync_data()
        file.drop_cache()
        self.assertEqual(file.read_at(0, 10), b"0123456789")

    def test_punch_hole(self) -> None:
        """A hole reads as zeros, or as before where holes are not supported; the size stays."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        file.append([b"x" * 20_000])
        file.punch_hole(4096, 8192)
        self.assertIn(file.read_at(4096, 8192), (bytes(8192), b"x" * 8192))
        self.assertEqual(file.size(), 20_000)
        self.assertEqual((file.read_at(0, 4096), file.read_at(12_288, 10)), (b"x" * 4096, b"x" * 10))

    def test_create_is_exclusive(self) -> None:
        """A file that is there is not created again, and one that is not there is not opened."""
        with self.assertRaises(FileNotFoundError):
            self.files.open(self.path)
        self.files.open(self.path, create=True).close()
        with self.assertRaises(FileExistsError):
            self.files.open(self.path, create=True)

    def test_reading_alone(self) -> None:
        """A file opened for reading takes no append."""
        self.files.open(self.path, create=True).close()
        file = self.files.open_for_reading(self.path)
        self.addCleanup(file.close)
        with self.assertRaises(OSError):
            file.append([b"x"])

    def test_lock(self) -> None:
        """A lock is had once at a time, and ends with its file."""
        lock = self.files.lock(self.path)
        with self.assertRaises(BlockingIOError):
            self.files.lock(self.path)
        lock.close()
        self.files.lock(self.path).close()

    def test_names(self) -> None:
        """Names are made, listed, renamed over others, removed; times are set."""
        self.files.open(self.path, create=True).close()
        self.files.make_directory(self.folder + "/sub")
        self.assertEqual(self.files.list(self.folder), ["file", "sub"])
        self.assertEqual(
            [self.files.is_directory(f"{self.folder}/{name}") for name in ("file", "sub", "no")], [False, True, False]
        )
        self.assertEqual([self.files.exists(f"{self.folder}/{name}") for name in ("file", "no")], [True, False])
        self.files.set_modified(self.path, 1000.5)
        self.assertEqual((self.files.modified(self.path), self.files.size(self.path)), (1000.5, 0))
        self.files.open(self.folder + "/new", create=True).append([b"new"])
        self.files.rename(self.folder + "/new", self.path)
        self.files.sync_directory(self.folder)
        self.assertEqual(self.content(), b"new")
        self.files.remove(self.path)
        self.files.remove_directory(self.folder + "/sub")
        self.assertEqual(self.files.list(self.folder), [])
        self.assertGreater(self.files.free_bytes(self.folder), 0)
