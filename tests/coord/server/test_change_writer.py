"""Tests of logd.coord.server.storage.change_writer: which bytes are in the files after each write."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.storage.change_file import SALT_BYTES, ChangeFileHead, encode_head, encode_records
from logd.coord.server.storage.change_writer import ChangeWriter, WriteRefused
from logd.coord.server.storage.folder import changes_name
from logd.testing.memory.files import MemoryFiles

FOLDER = "/tree"
SALT = bytes(range(SALT_BYTES))


class ChangeWriterTests(SynchronousTestCase):
    """A writer in an empty folder."""

    def setUp(self) -> None:
        """Make the folder."""
        self.files = MemoryFiles(now=lambda: 0.0)
        self.files.make_directory(FOLDER)
        self.writer = ChangeWriter(self.files, FOLDER, lambda count: SALT[:count])

    def content(self, base: int) -> bytes:
        """The bytes in the file of changes behind ``base``."""
        return bytes(self.files._inode(f"{FOLDER}/{changes_name(base)}").data)

    def test_first_write_begins_with_head(self) -> None:
        """A new file begins with its head; the records of later writes follow one another."""
        first, second = [(1, b"one"), (2, b"two")], [(3, b"three")]
        head = encode_head(ChangeFileHead(0, SALT))
        written = self.writer.write(first, 0, rolling=False), self.writer.write(second, 2, rolling=False)
        records = [encode_records(SALT, 0, first), encode_records(SALT, 2, second)]
        self.assertEqual(self.content(0), head + b"".join(records))
        self.assertEqual(written, (len(head + records[0]), len(records[1])))

    def test_rolling(self) -> None:
        """A rolling write goes to a new file, unless the present one has no change yet."""
        self.writer.write([(1, b"one")], 0, rolling=False)
        before = self.content(0)
        self.writer.write([(2, b"two")], 1, rolling=True)
        self.assertEqual(self.content(0), before)
        self.assertTrue(self.content(1).startswith(encode_head(ChangeFileHead(1, SALT))))

    def test_refused_write_leaves_nothing(self) -> None:
        """A write that the full disk takes in part is cut back, and the next one continues the file."""
        self.writer.write([(1, b"one")], 0, rolling=False)
        before = self.content(0)
        self.files.room = 5
        self.assertRaises(WriteRefused, self.writer.write, [(2, b"two")], 1, rolling=False)
        self.assertEqual(self.content(0), before)
        self.files.room = None
        self.writer.write([(2, b"two")], 1, rolling=False)
        self.assertEqual(self.content(0), before + encode_records(SALT, 1, [(2, b"two")]))

    def test_cut_unsynced(self) -> None:
        """After a failed sync, what was written before it can be cut off."""
        self.writer.write([(1, b"one")], 0, rolling=False)
        before = self.content(0)
        self.files.errors["sync_data"] = [OSError(5, "input/output error")]
        self.assertRaises(OSError, self.writer.write, [(2, b"two")], 1, rolling=False)
        self.assertNotEqual(self.content(0), before)
        self.writer.cut_unsynced()
        self.assertEqual(self.content(0), before)

    def tearDown(self) -> None:
        """Close the files."""
        self.writer.close()
        self.assertEqual(self.files.open_handles, 0)
