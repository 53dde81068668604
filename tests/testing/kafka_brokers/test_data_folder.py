"""Tests of the folders for data that nobody needs after a test."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IFile, IFileOperations
from logd.testing.kafka_brokers.data_folder import DataFolder, UnflushedFiles


class DataFolderTests(SynchronousTestCase):
    """Folders of brokers for tests."""

    def test_a_folder_is_new_and_goes_with_all_that_is_in_it(self) -> None:
        """A second removal does nothing."""
        folder = DataFolder()
        Path(folder.path, "file").write_text("x")
        folder.remove()
        self.assertFalse(os.path.exists(folder.path))
        folder.remove()

    def test_without_room_in_memory_it_is_with_the_other_temporary_files(self) -> None:
        """Containers often have no more than 64 MB there, and some systems have nothing."""
        folder = DataFolder(memory="/nonexistent")
        self.addCleanup(folder.remove)
        self.assertTrue(os.path.isdir(folder.path))
        self.assertFalse(folder.path.startswith("/nonexistent"))

    def test_its_files_are_never_flushed(self) -> None:
        """A file of this kind says that it is durable without a system call: the descriptor may be closed already."""
        files = UnflushedFiles()
        verifyObject(IFileOperations, files)
        path = self.mktemp()
        file = files.open(os.path.abspath(path), create=True)
        verifyObject(IFile, file)
        file.append([b"abc"])
        self.assertEqual(file.read_at(0, 3), b"abc")
        file.close()
        file.sync_data()
        file.check_written()
        files.sync_directory("/nonexistent")
        self.assertIs(files.file_system("/"), None)
