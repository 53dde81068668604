"""Tests of logd.log.disk.open_files, the files that readers share, and of logd.log.open_writers."""

from __future__ import annotations

import errno
from unittest.mock import Mock

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import UnknownError
from logd.log.disk.open_files import OpenFiles
from logd.log.open_writers import OpenWriters
from logd.testing.memory.files import MemoryFile, MemoryFiles
from tests.log.entries import plain
from tests.log.rig import Rig


class OpenFilesTests(SynchronousTestCase):
    """Files that readers share."""

    def test_the_least_recently_used_file_is_closed(self) -> None:
        """A file that is held stays open."""
        files = MemoryFiles()
        for name in "abc":
            files.open(f"/{name}", create=True).close()
        cache = OpenFiles(files, 2)
        a = cache.acquire("/a")
        cache.acquire("/b").release()
        a_again = cache.acquire("/a")
        self.assertIs(a_again, a)
        cache.acquire("/c").release()  # b goes
        self.assertEqual(files.open_handles, 2)
        cache.acquire("/b").release()  # a goes, and is still held
        self.assertEqual((files.open_handles, len(cache)), (3, 2))
        a.file.read_at(0, 1)
        a.release()
        a_again.release()
        self.assertEqual(files.open_handles, 2)
        cache.forget("/b")
        cache.close()
        self.assertEqual(files.open_handles, 0)


@define(eq=False)
class Writer:
    """A stand-in for a log: open for appending, and idle or not."""

    idle: bool = False
    closed: int = 0

    def close_idle(self) -> bool:
        """See open_writers.Closable."""
        self.closed += self.idle
        return self.idle


class LastSegmentTests(SynchronousTestCase):
    """The file of a last segment, which is opened when it is first needed."""

    def test_a_file_whose_size_cannot_be_read_is_closed(self) -> None:
        """Readers try again and again, and each would leave one more open."""
        rig = Rig()
        rig.filled(plain(b"first"))
        rig.stop()
        rig.open()
        before = rig.files.open_handles
        self.patch(MemoryFile, "size", Mock(side_effect=OSError(errno.EIO, "input/output error")))
        self.assertRaises(UnknownError, rig.log().read, 0, 100)
        self.assertEqual(rig.files.open_handles, before)


class OpenWritersTests(SynchronousTestCase):
    """Last segments that are open for appending."""

    def test_the_one_just_opened_is_not_closed(self) -> None:
        """It was open before: its log has begun another segment."""
        writers = OpenWriters(1)
        rolled, other = Writer(), Writer()
        for each in (other, rolled):
            writers.opened(each)  # more than the limit, as both are busy
        rolled.idle = True
        writers.opened(rolled)
        self.assertEqual((rolled.closed, len(writers)), (0, 2))
        other.idle = True
        writers.opened(rolled)
        self.assertEqual((rolled.closed, other.closed, len(writers)), (0, 1, 1))
