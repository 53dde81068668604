"""Tests of logd.log.disk.local_files: the local disk behind IFileOperations."""

from __future__ import annotations

import errno
import os
import stat

from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IFile, IFileOperations, IFileSystem, IThreads
from logd.log.disk import local_files
from logd.log.disk.local_files import LocalFiles
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads


class LocalFilesTests(SynchronousTestCase):
    """Each operation, on real files."""

    def setUp(self) -> None:
        """Make an empty folder."""
        self.folder = os.path.abspath(self.mktemp())
        self.files = LocalFiles()
        self.files.make_directory(self.folder)
        self.path = self.folder + "/file"

    def content(self) -> bytes:
        """Return the file's bytes."""
        with open(self.path, "rb") as file:
            return file.read()

    def test_files_and_their_doubles_provide_the_interfaces(self) -> None:
        """A test over the doubles says nothing otherwise."""
        for files in (self.files, MemoryFiles()):
            verifyObject(IFileOperations, files)
        memory = MemoryFiles()
        verifyObject(IFile, memory.open("/x", create=True))
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        verifyObject(IFile, file)
        verifyObject(IThreads, Threads())

    def test_files_are_private_to_owner_and_group(self) -> None:
        """Messages may be confidential, whatever the umask."""
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
        """The link's target would be opened, and could be another program's file."""
        target = self.folder + "/target"
        with open(target, "w") as file:
            file.write("somebody's")
        os.symlink(target, self.folder + "/meta")
        refused = self.assertRaises(OSError, self.files.lock, self.folder + "/meta")
        self.assertEqual(refused.errno, errno.ELOOP)
        with open(target) as file:
            self.assertEqual(file.read(), "somebody's")

    def test_another_users_directory_is_refused(self) -> None:
        """Nothing is made or locked in it; the error names both users."""
        if os.geteuid():
            raise SkipTest("to give a directory away needs root")
        os.chown(self.folder, 4711, -1)
        refused = self.assertRaises(PermissionError, self.files.lock, self.folder + "/meta")
        self.assertIn("user 4711 owns it, and this process runs as user 0", str(refused))
        self.assertEqual(os.listdir(self.folder), [])

    def test_appends_follow_one_another(self) -> None:
        """An append may have one buffer, several, or more than one system call takes."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        many = [bytes([number % 256]) * (number % 7) for number in range(3000)]
        self.assertEqual(file.append([b"one"]), 3)
        self.assertEqual(file.append([b"two", b"", b"three"]), 8)
        self.assertEqual(file.append(many), len(b"".join(many)))
        self.assertEqual(self.content(), b"onetwothree" + b"".join(many))
        self.assertEqual(file.size(), len(self.content()))

    def test_an_append_goes_to_the_current_end(self) -> None:
        """The file was opened again, cut and written to before."""
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

    def test_reads_return_the_bytes_there_are(self) -> None:
        """A read is short at the file's end only, and the cache has the bytes just written."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        file.append([b"0123456789"])
        self.assertEqual((file.read_at(2, 3), file.read_at(8, 10), file.read_at(10, 5)), (b"234", b"89", b""))
        self.assertEqual((file.read_cached(2, 3), file.read_cached(8, 10)), (b"234", b"89"))
        self.assertTrue(file.is_cached(0, 10))
        file.sync_data()
        file.drop_cache()
        self.assertEqual(file.read_at(0, 10), b"0123456789")

    def test_a_hole_reads_as_zeros(self) -> None:
        """A disk without holes keeps the bytes; the size stays in any case."""
        file = self.files.open(self.path, create=True)
        self.addCleanup(file.close)
        file.append([b"x" * 20_000])
        file.punch_hole(4096, 8192)
        self.assertIn(file.read_at(4096, 8192), (bytes(8192), b"x" * 8192))
        self.assertEqual(file.size(), 20_000)
        self.assertEqual((file.read_at(0, 4096), file.read_at(12_288, 10)), (b"x" * 4096, b"x" * 10))

    def test_creating_needs_a_new_name(self) -> None:
        """Opening needs a name that is there."""
        with self.assertRaises(FileNotFoundError):
            self.files.open(self.path)
        self.files.open(self.path, create=True).close()
        with self.assertRaises(FileExistsError):
            self.files.open(self.path, create=True)

    def test_a_file_for_reading_takes_no_append(self) -> None:
        """A reader cannot change a segment by mistake."""
        self.files.open(self.path, create=True).close()
        file = self.files.open_for_reading(self.path)
        self.addCleanup(file.close)
        with self.assertRaises(OSError):
            file.append([b"x"])

    def test_a_lock_has_one_holder(self) -> None:
        """The lock ends with its file."""
        lock = self.files.lock(self.path)
        with self.assertRaises(BlockingIOError):
            self.files.lock(self.path)
        lock.close()
        self.files.lock(self.path).close()

    def test_names_and_times_can_be_changed(self) -> None:
        """Names are made, listed, renamed over others and removed."""
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


class FileSystemTests(SynchronousTestCase):
    """The sync of a whole file system, and the choice of those for which it is a proof."""

    def setUp(self) -> None:
        """Make an empty folder."""
        self.folder = os.path.abspath(self.mktemp())
        self.files = LocalFiles()
        self.files.make_directory(self.folder)

    def test_a_sync_covers_the_files_of_its_device(self) -> None:
        """It is not offered on every machine, but where it is, it works."""
        file = self.files.open(self.folder + "/file", create=True)
        self.addCleanup(file.close)
        file.append([b"some bytes"])
        file_system = local_files.LocalFileSystem(self.folder)
        self.addCleanup(file_system.close)
        verifyObject(IFileSystem, file_system)
        file_system.sync()
        file.check_written()
        self.assertEqual(file.device, file_system.device)
        self.assertEqual(self.files.device(self.folder), file_system.device)
        self.assertGreaterEqual(file_system.dirty_bytes(), 0)
        file_system.close()
        file_system.close()
        self.assertRaises(OSError, file_system.sync)

    def test_an_error_of_a_closed_file_is_not_overlooked(self) -> None:
        """The functions of the C library say by their result alone that they failed."""
        file = self.files.open(self.folder + "/file", create=True)
        file.close()
        self.assertRaises(OSError, file.check_written)

    def test_only_known_file_systems_of_new_kernels_are_fit(self) -> None:
        """tmpfs has no disk, and older kernels keep errors of the file system to themselves."""
        if not os.path.isdir("/dev/shm") or not os.path.exists("/proc/self/mountinfo"):
            raise SkipTest("this machine has no tmpfs")
        self.assertIs(self.files.file_system("/dev/shm"), None)
        mounts = self.folder + "/mountinfo"
        device = os.stat(self.folder).st_dev
        for release, kind, fit in (
            ("5.17.0", "ext4", True),
            ("6.1.0-18-amd64", "xfs", True),
            ("5.16.20", "ext4", False),
            ("4.19", "ext4", False),
            ("6.18", "overlay", False),
            ("6.18", "fuse.s3fs", False),
        ):
            with open(mounts, "w") as file:
                file.write("21 1 0:99 / /proc rw shared:5 - proc proc rw\n")
                file.write(f"30 1 {os.major(device)}:{os.minor(device)} / / rw,noatime shared:1 - {kind} /dev/x rw\n")
            self.assertEqual(local_files.is_syncfs_fit(device, "Linux", release, mounts), fit, (release, kind))
        self.assertFalse(local_files.is_syncfs_fit(device, "Darwin", "23.1.0", mounts))
        self.assertFalse(local_files.is_syncfs_fit(device + 1, "Linux", "6.18", mounts))
        self.assertFalse(local_files.is_syncfs_fit(device, "Linux", "6.18", self.folder + "/none"))
