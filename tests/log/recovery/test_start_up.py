"""Tests of the time that a start takes on a real disk, and of the files that it keeps open.

There are a few hundred segments and partitions; LOGD_START_SEGMENTS=10000 and LOGD_START_PARTITIONS=2000 set other
numbers. The figures are in the test's log (_trial_temp/test.log).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.disk.local_files import LocalFiles
from logd.log.disk.names import segment_name
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.recovery.flush_mark import encode_mark
from logd.log.store.log_store import LogStore
from tests.log.entries import plain
from tests.log.threads import Threads

SEGMENTS = int(os.environ.get("LOGD_START_SEGMENTS", "300"))
PARTITIONS = int(os.environ.get("LOGD_START_PARTITIONS", "300"))
ENTRY = plain(b"eleven more")
READERS, WRITERS = 8, 16
#: Seconds: generous for a busy machine, and far below the time that reading the segments would take.
PATIENCE = 20.0


def open_descriptors() -> int:
    """Return the number of files that this process has open."""
    return len(os.listdir("/proc/self/fd"))


class StartUpTests(SynchronousTestCase):
    """Starts over many segments and many partitions."""

    def setUp(self) -> None:
        """Choose an empty data directory."""
        self.path = Path(os.path.abspath(self.mktemp()))
        self.threads = Threads()

    def new_store(self) -> LogStore:
        """Return a store that is not open yet."""
        clock = Clock()
        clock.advance(1_000_000)
        settings = LogSettings(retention_ms=-1)
        return LogStore(
            str(self.path),
            LocalFiles(),
            clock,
            self.threads,
            settings,
            open_files_limit=READERS,
            open_writers_limit=WRITERS,
        )

    def open(self, what: str) -> LogStore:
        """Start, and log the time that it took."""
        before = open_descriptors()
        store = self.new_store()
        began = time.perf_counter()
        store.open()
        seconds = time.perf_counter() - began
        Logger().info("{what}: started in {seconds} s", what=what, seconds=round(seconds, 3))
        self.assertLess(seconds, PATIENCE)
        # The lock, and the folder by which the whole file system is synced.
        self.assertLessEqual(open_descriptors(), before + 2, "files of the logs are open")
        return store

    def read_all(self, log: PartitionLog) -> int:
        """Read a little of every segment; return the number of segments."""
        for start, _, _ in log.segments():
            found = log.read(start, 100)
            assert found is not None
            self.assertEqual(found.file.read_at(found.file_position, found.count), ENTRY)
            found.close()
        return len(log.segments())

    def fill(self, folder: str, segments: int, behind: int = 0) -> None:
        """Make a partition as a broker leaves it: an entry in each segment, and a checkpoint ``behind`` entries old."""
        path = self.path / folder
        path.mkdir(parents=True)
        for number in range(segments):
            (path / segment_name(number * len(ENTRY))).write_bytes(ENTRY)
        end = segments * len(ENTRY)
        (path / "checkpoint").write_bytes(Checkpoint(0, end - behind * len(ENTRY)).encode())
        (path / "mark").write_bytes(encode_mark(end - behind * len(ENTRY)))

    def prepare(self) -> None:
        """Give the directory its identity, as the first start does."""
        store = self.new_store()
        store.open()
        store.close()

    def test_many_segments_start_fast(self) -> None:
        """After a clean stop and after a kill; reading them all keeps few open."""
        self.prepare()
        self.fill("t-0", SEGMENTS, behind=3)
        for how in ("killed", "stopped"):
            store = self.open(f"{SEGMENTS} segments, {how}")
            before = open_descriptors()
            log = store.log("t", 0)
            assert log is not None
            self.assertEqual(log.visible_end, SEGMENTS * len(ENTRY))
            self.assertEqual(self.read_all(log), SEGMENTS)
            self.assertLessEqual(open_descriptors(), before + READERS + 1)
            store.close()

    def test_many_partitions_start_fast(self) -> None:
        """Appending to all of them keeps few open, old or new."""
        self.prepare()
        for number in range(PARTITIONS):
            self.fill(f"t-{number}", 1, behind=1)
        for how in ("killed", "stopped"):
            store = self.open(f"{PARTITIONS} partitions, {how}")
            before = open_descriptors()
            for number in range(PARTITIONS):
                for topic in ("t", f"new-{how}"):
                    log = store.create(topic, number)
                    end = log.end
                    self.assertEqual(log.append([ENTRY], 1, -1), end)
                    self.threads.settle()
                    self.assertEqual(log.visible_end, end + len(ENTRY))
                    self.assertLessEqual(open_descriptors(), before + WRITERS + 1)
            for number in range(PARTITIONS):
                log = store.create("t", number)
                self.assertEqual(log.append([ENTRY], 1, -1), log.visible_end)
            self.threads.settle()
            store.close()
            self.assertLessEqual(open_descriptors(), before)
