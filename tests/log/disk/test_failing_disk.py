"""Tests in which every call to the disk fails once, each in its turn, with a full disk's error and a broken one's.

One life is lived again and again: appends, rolls, flushes, checkpoints, topics, retention, a clean stop and starts.
Each time another call fails. No visible byte is lost, ids stay, other partitions go on, and a start on the mended disk
serves everything.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import DataDirectoryError, LogdError, PartitionOffline, StorageFull, UnknownError
from logd.log.partition import PartitionLog
from logd.log.store.topics_file import TopicsFile
from logd.topic import TopicEntry
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

SETTINGS = LogSettings(segment_bytes=50, index_bytes=1, retention_bytes=100, retention_ms=-1)
#: Calls that need room; no other call fails with ENOSPC.
NEED_ROOM = {"append", "write_at", "create", "make_directory", "rename", "lock"}


def full(call: str, path: str) -> OSError | None:
    """Return the error of a full disk, for calls that need room."""
    return OSError(errno.ENOSPC, "No space left on device", path) if call in NEED_ROOM else None


def broken(call: str, path: str) -> OSError | None:
    """Return the error of a broken disk, for any call."""
    return OSError(errno.EIO, "Input/output error", path)


@define(eq=False)
class Life:
    """The work that is done on a disk, and the state that it has to leave."""

    rig: Rig
    #: By topic: the bytes appended, and the visible end.
    appended: dict[str, bytes] = field(factory=lambda: {"t": b"", "u": b""})
    visible: dict[str, int] = field(factory=lambda: {"t": 0, "u": 0})
    start: dict[str, int] = field(factory=lambda: {"t": 0, "u": 0})
    refusals: list[LogdError] = field(factory=list)
    topics: set[str] = field(factory=set)
    serial: int = 0

    def live(self) -> None:
        """Go through the life once."""
        for _ in range(3):
            for _ in range(4):
                self.append("t")
                self.append("u")
            self.rig.threads.settle()
            self.note()
            self.rig.store.write_checkpoints()
            self.rig.store.expire()
            self.rig.threads.settle()
            self.note()
            self.write_topics()

    def append(self, topic: str) -> None:
        """Append one message; a failure must do no harm."""
        self.serial += 1
        entry = plain(b"%d of %s" % (self.serial, topic.encode()))
        try:
            log = self.rig.log(topic)
            first = log.append([entry], 1, -1)
        except LogdError as error:
            self.refusals.append(error)
            return
        assert first == len(self.appended[topic]), (first, len(self.appended[topic]))
        self.appended[topic] += entry

    def write_topics(self) -> None:
        """Replace topics.json; after an error it has to be the old one or the new one."""
        new = {f"topic{self.serial}"}
        try:
            TopicsFile(self.rig.files, ROOT).write({name: TopicEntry("u", {0: (0,)}) for name in new})
        except OSError:
            try:
                found = set(TopicsFile(self.rig.files, ROOT).read())
            except DataDirectoryError as error:
                raise AssertionError("topics.json is damaged") from error
            assert found in (self.topics, new), found
            new = found
        self.topics = new

    def note(self) -> None:
        """Note the ends that consumers see."""
        for topic in self.appended:
            log = self.rig.store.log(topic, 0)
            if log is not None and log.offline is None:
                assert log.visible_end >= self.visible[topic]
                self.visible[topic], self.start[topic] = log.visible_end, log.start

    def check(self, log: PartitionLog) -> None:
        """Check that all visible bytes are there, but those that retention removed, which a crash may undo."""
        assert log.offline is None, log.offline
        assert log.end >= self.visible[log.topic], (log.end, self.visible)
        assert log.start <= self.start[log.topic], (log.start, self.start)
        content = self.rig.content(log)
        assert content == self.appended[log.topic][log.start : log.end], log.topic


class EachCallTests(SynchronousTestCase):
    """Lives in each of which one call fails."""

    def each(self, fail_with: Callable[[str, str], OSError | None]) -> list[tuple[Life, str]]:
        """Live once for each call that can fail; return the lives with the call that failed in each."""
        lives = []
        rig = Rig(SETTINGS)
        rig.files.calls = 0
        Life(rig).live()
        total = rig.files.calls
        for number in range(1, total + 1):
            rig = Rig(SETTINGS)
            failed: list[str] = []

            def fail(call: str, path: str, failed: list[str] = failed) -> OSError | None:
                error = fail_with(call, path)
                if error is not None:
                    failed.append(f"{call} {path}")
                return error

            life = Life(rig)
            rig.files.calls, rig.files.fail_at, rig.files.fail_with = 0, number, fail
            try:
                life.live()
            except BaseException as error:
                raise AssertionError(f"call {number}: {failed}") from error
            if failed:
                lives.append((life, failed[0]))
        return lives

    def restart(self, life: Life, power_lost: bool) -> None:
        """Kill the broker, start it on a disk that works, and check that all is served."""
        rig = life.rig
        rig.files.fail_at = 0
        rig.kill(power_lost)
        rig.open()
        for log in rig.store.logs():
            life.check(log)
            end = log.end
            self.assertEqual(log.append([plain(b"more")], 1, -1), end)
        rig.threads.settle()

    def test_a_full_disk_costs_one_operation_at_most(self) -> None:
        """The operation may be tried again at once, and no partition goes offline."""
        lives = self.each(full)
        self.assertGreater(len(lives), 60)
        for life, call in lives:
            for error in life.refusals:
                self.assertIsInstance(error, StorageFull, call)
            self.assertLessEqual(len(life.refusals), 1, call)
            for topic in life.appended:
                log = life.rig.store.log(topic, 0)
                assert log is not None
                self.assertIsNone(log.offline, call)
                self.assertEqual(log.visible_end, log.end, call)
                life.check(log)

    def test_a_restart_follows_a_full_disk(self) -> None:
        """The process is killed after it, or the power goes."""
        for power_lost in (False, True):
            for life, call in self.each(full):
                life.rig.files.random.seed(call)
                self.restart(life, power_lost)

    def test_a_broken_disk_costs_one_partition_at_most(self) -> None:
        """The reason names its folder and says what to do."""
        lives = self.each(broken)
        self.assertGreater(len(lives), 100)
        offline = set()
        for life, call in lives:
            gone = [log for log in life.rig.store.logs() if log.offline is not None]
            self.assertLessEqual(len(gone), 1, call)
            for log in gone:
                offline.add(call.partition(" ")[0])
                self.assertIn(log.folder, str(log.offline), call)
                self.assertIn("restart the broker", str(log.offline))
                self.assertTrue(log.folder in call or call == f"sync_directory {ROOT}", call)
            for error in life.refusals:
                self.assertIsInstance(error, (PartitionOffline, UnknownError), call)
            for log in life.rig.store.logs():
                if log not in gone:
                    self.assertEqual(log.visible_end, log.end, call)
                    life.check(log)
        # Reads, checkpoints, indexes and removals do not do it.
        self.assertEqual(offline, {"append", "create", "open", "sync_data", "sync_directory"})

    def test_a_mended_disk_serves_everything(self) -> None:
        """The broker was killed on the broken one."""
        for power_lost in (False, True):
            for life, call in self.each(broken):
                life.rig.files.random.seed(call)
                self.restart(life, power_lost)

    def test_a_start_survives_a_failing_call(self) -> None:
        """The start is refused with a reason, or lacks one partition; the next one serves all."""
        for clean in (True, False):
            number = 0
            survived = False
            while not survived:
                number += 1
                rig = Rig(SETTINGS)
                life = Life(rig)
                life.live()
                life.append("t")
                if clean:
                    rig.stop()
                else:
                    rig.kill()
                rig.files.calls, rig.files.fail_at, rig.files.fail_with = 0, number, broken
                try:
                    rig.open()
                except DataDirectoryError as error:
                    self.assertIn(ROOT, str(error))
                else:
                    survived = rig.files.calls < number
                    rig.files.fail_at = 0
                    gone = [log for log in rig.store.logs() if log.offline is not None]
                    self.assertLessEqual(len(gone), 1)
                    for log in rig.store.logs():
                        if log in gone:
                            self.assertIn("restart the broker", str(log.offline))
                        else:
                            life.check(log)
                self.restart(life, power_lost=False)
            self.assertGreater(number, 20)
