"""Tests of the names in a data directory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import DataDirectoryError
from logd.log.disk.names import COORDINATION, META, META_COPY, SECURED, TOPICS, join
from logd.log.store.locked_directory import LockedDirectory
from logd.testing.memory.files import MemoryFiles


class LockedDirectoryTests(SynchronousTestCase):
    """A directory with the files of a broker, a partition, and a file of somebody else."""

    def test_what_does_not_belong_there_is_reported(self) -> None:
        """And nothing that a broker itself has written, such as the sign of a cluster with users."""
        files = MemoryFiles(now=lambda: 0.0)
        files.make_directory("/data")
        for name in (META, META_COPY, TOPICS, SECURED, "notes"):
            files.open(join("/data", name), create=True).close()
        for name in (COORDINATION, "clicks-0"):
            files.make_directory(join("/data", name))
        reported: list[str] = []
        directory = LockedDirectory(
            files, "/data", None, lambda: "x", frozenset(), lambda text, path: reported.append(path)
        )
        self.assertEqual([(topic, number) for topic, number, _ in directory.partitions()], [("clicks", 0)])
        self.assertEqual(reported, ["/data/notes"])

    def test_the_directory_of_a_coordination_tree_is_refused(self) -> None:
        """With a broker's files in it, `logd zookeeper` would not start there any more; so nothing is written."""
        files = MemoryFiles(now=lambda: 0.0)
        files.make_directory("/tree")
        for name in ("changes.0000000000000000", "lock", "mark"):
            files.open(join("/tree", name), create=True).close()
        directory = LockedDirectory(files, "/tree", None, lambda: "x", frozenset(), lambda text, path: None)
        with self.assertRaisesRegex(DataDirectoryError, "/tree is the directory of a coordination tree"):
            directory.lock()
        self.assertEqual(sorted(files.list("/tree")), ["changes.0000000000000000", "lock", "mark"])
