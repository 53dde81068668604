"""Tests of the open files of followed logs."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.collect.descriptors import Descriptors
from logd.collect.files import Seen
from logd.collect.source import SourceFile
from tests.collect.doubles import MemoryDisk, MemoryOpenFile


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
