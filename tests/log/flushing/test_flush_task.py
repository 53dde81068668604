"""Tests of logd.log.flush_task: a sync of many partitions promises each of them what its own fdatasync does."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.names import join, segment_name
from logd.log.disk.open_files import SharedFile
from logd.log.flush_task import FlushTask, GroupTask
from logd.log.recovery.flush_mark import read_mark
from logd.testing.memory.disk import Inode
from logd.testing.memory.files import MemoryFiles

COUNT = 5


class GroupTaskTests(SynchronousTestCase):
    """Five partitions with one unsynced file each, over a disk in memory."""

    def setUp(self) -> None:
        """Write to each partition's file, and open the file system before that, as a store does."""
        self.files = MemoryFiles(syncs_whole=True)
        self.files.make_directory("/data")
        file_system = self.files.file_system("/data")
        assert file_system is not None
        self.file_system = file_system
        self.tasks: list[FlushTask] = []
        for number in range(COUNT):
            folder = f"/data/t-{number}"
            self.files.make_directory(folder)
            shared = SharedFile(self.files.open(join(folder, segment_name(0)), create=True))
            shared.file.append([b"%d" % number * 20])
            self.tasks.append(FlushTask(self.files, [shared], [folder, "/data"], 20, folder))

    def inode(self, number: int) -> Inode:
        """Return the file of a partition."""
        return self.files._inode(join(f"/data/t-{number}", segment_name(0)))

    def run_group(self) -> list[int]:
        """Sync all partitions together, and return those that failed."""
        errors = GroupTask(self.file_system, self.tasks).run()
        self.assertEqual(len(errors), COUNT)
        return [number for number, error in enumerate(errors) if error is not None]

    def durable(self) -> list[int]:
        """Return the partitions whose bytes survive a loss of power, with their names."""
        paths = [join(f"/data/t-{number}", segment_name(0)) for number in range(COUNT)]
        wanted = [b"%d" % number * 20 for number in range(COUNT)]
        return [number for number in range(COUNT) if self.files.durable(paths[number]) == wanted[number]]

    def marks(self) -> list[int]:
        """Return the flush marks of all partitions."""
        return [read_mark(self.files, f"/data/t-{number}") for number in range(COUNT)]

    def test_one_sync_makes_all_of_them_durable(self) -> None:
        """Besides it, one partition is synced by itself, and the marks of all are written."""
        self.assertEqual((self.run_group(), self.durable(), self.marks()), ([], [*range(COUNT)], [20] * COUNT))
        self.assertEqual(
            self.files.sites & {"file system in flush_task.run", "directory in flush_task.run of the partition"},
            {"file system in flush_task.run", "directory in flush_task.run of the partition"},
        )

    def test_a_failed_sync_is_the_failure_of_one_partition_alone(self) -> None:
        """A sync of each finds out which one it is, so that the others stay online."""
        self.inode(3).fail(self.files.random)
        self.assertEqual((self.run_group(), self.marks()), ([3], [20, 20, 20, 0, 20]))
        self.assertEqual(set(self.durable()) | {3}, {*range(COUNT)})

    def test_a_failure_that_an_earlier_sync_reported_is_found(self) -> None:
        """The kernel tells each descriptor of the directory once, perhaps in a sync for other partitions."""
        self.inode(3).fail(self.files.random)
        self.assertRaises(OSError, self.file_system.sync)
        self.file_system.sync()
        self.assertEqual((self.run_group(), self.marks()), ([3], [20, 20, 20, 0, 20]))

    def test_a_partition_on_another_file_system_is_synced_by_itself(self) -> None:
        """The sync of the data directory's file system says nothing about it."""
        self.files.mounts = {"/data/t-2": 7}
        moved = self.tasks[2]
        moved.files = [SharedFile(self.files.open(join(moved.folder, segment_name(0))))]
        self.assertEqual((self.run_group(), self.durable()), ([], [*range(COUNT)]))

    def test_a_file_system_that_stopped_writing_is_noticed(self) -> None:
        """A sync of one that an error made read-only returns at once without an error; fdatasync does not."""
        self.files.skipped = {"file system in flush_task.run"}
        for number in range(COUNT):
            error = OSError(errno.EROFS, "read-only file system")
            self.files.errors[f"sync_data {join(f'/data/t-{number}', segment_name(0))}"] = [error]
        self.assertEqual((self.run_group(), self.durable(), self.marks()), ([*range(COUNT)], [], [0] * COUNT))

    def test_a_removed_file_is_the_failure_of_its_partition(self) -> None:
        """At the next start it would be missing."""
        self.files.remove(join("/data/t-4", segment_name(0)))
        self.assertEqual(self.run_group(), [4])

    def test_partitions_without_files_are_synced_by_themselves(self) -> None:
        """No fdatasync of a file could then tell that the file system has stopped writing."""
        for task in self.tasks:
            task.files = []
        self.assertEqual(self.run_group(), [])
        self.assertNotIn("file system in flush_task.run", self.files.sites)
