"""Tests of logd.log.disk.open_files, the files that readers share."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.open_files import OpenFiles
from logd.testing.memory.files import MemoryFiles


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
