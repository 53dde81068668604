"""Tests of logd.log.flusher: whose turn it is at the disk, and how much waits for it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.partition import PartitionLog
from tests.log.entries import plain
from tests.log.rig import Rig

ENTRY = plain(b"eleven more")


class OrderTests(SynchronousTestCase):
    """With one thread."""

    def setUp(self) -> None:
        """One thread, busy with partition 0."""
        self.rig = Rig(LogSettings(flush_ms=1000, flush_messages=3), limits={"flush_workers": 1})
        self.logs = [self.rig.log(partition=number) for number in range(5)]
        self.append(0)

    def append(self, number: int, messages: int = 1) -> PartitionLog:
        """Append to a partition."""
        self.logs[number].append([ENTRY], messages, -1)
        return self.logs[number]

    def next(self) -> list[int]:
        """Let the sync under way end; return the partitions that are visible as a whole."""
        self.assertEqual(len(self.rig.threads.works), 1)
        self.rig.threads.work()
        self.rig.threads.deliver()
        return [log.partition for log in self.logs if log.end and log.unflushed_bytes == 0]

    def test_oldest_first(self) -> None:
        """Partitions are flushed in the order in which they began to wait."""
        for number in (3, 1, 3, 2):
            self.append(number)
        self.assertEqual([self.next() for _ in range(4)], [[0], [0, 3], [0, 1, 3], [0, 1, 2, 3]])

    def test_due_first(self) -> None:
        """A partition that an acknowledgement waits for goes before older ones."""
        self.append(1)
        self.rig.store.flusher.due_now(self.append(2))
        self.assertEqual([self.next() for _ in range(3)], [[0], [0, 2], [0, 1, 2]])

    def test_many_messages_are_due(self) -> None:
        """So does one with as many messages as the setting says, however they came."""
        self.append(1)
        self.append(2, 2)
        self.append(2)
        self.assertEqual([self.next() for _ in range(3)], [[0], [0, 2], [0, 1, 2]])

    def test_overdue_ones_take_turns(self) -> None:
        """One that waited longer than flush.ms gets every second turn, whatever is due."""
        for number in (1, 2):
            self.append(number)
        self.rig.clock.advance(1.5)
        for number in (3, 4):
            self.rig.store.flusher.due_now(self.append(number))
        seen = [self.next() for _ in range(5)]
        self.assertEqual(seen, [[0], [0, 3], [0, 1, 3], [0, 1, 3, 4], [0, 1, 2, 3, 4]])

    def test_due_during_a_sync(self) -> None:
        """What becomes due during its own sync is first afterwards."""
        self.append(1)
        self.rig.store.flusher.due_now(self.append(0))
        self.assertEqual(self.next(), [])
        self.assertEqual(self.next(), [0])

    def test_idle(self) -> None:
        """The end of all work is told once, after the last flush."""
        told: list[int] = []
        self.append(1)
        self.rig.store.flush_all(lambda: told.append(self.logs[1].visible_end))
        self.next()
        self.assertEqual(told, [])
        self.next()
        self.rig.store.flush_all(lambda: told.append(-1))
        self.assertEqual(told, [20, -1])


class WorkersTests(SynchronousTestCase):
    """With several threads."""

    def test_as_many_as_there_are_threads(self) -> None:
        """No more syncs are under way than the setting says, and none twice for one partition."""
        rig = Rig(limits={"flush_workers": 2})
        for number in (0, 0, 1, 2):
            rig.log(partition=number).append([ENTRY], 1, -1)
        self.assertEqual(len(rig.threads.works), 2)
        rig.threads.work(1)
        rig.threads.deliver()
        self.assertEqual((rig.log(partition=1).visible_end, len(rig.threads.works)), (20, 2))
        rig.threads.settle()
        self.assertEqual([log.unflushed_bytes for log in rig.store.logs()], [0, 0, 0])


class PressureTests(SynchronousTestCase):
    """The bound on unflushed bytes."""

    def test_on_and_off(self) -> None:
        """Above the limit pressure is told once, and its end at half of it."""
        rig = Rig(limits={"unflushed_limit": 100, "flush_workers": 1})
        for number in range(5):
            rig.log(partition=number).append([ENTRY], 1, -1)
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([], 100))
        rig.log().append([ENTRY], 1, -1)
        rig.log().append([ENTRY], 1, -1)
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([True], 140))
        for _ in range(4):
            rig.threads.work()
            rig.threads.deliver()
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([True], 60))
        rig.threads.settle()
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([True, False], 0))

    def test_an_offline_partition_does_not_count(self) -> None:
        """What will never be flushed does not hold producers back."""
        rig = Rig(limits={"unflushed_limit": 10})
        rig.log().append([ENTRY], 1, -1)
        rig.log().append([ENTRY], 1, -1)
        rig.log().go_offline(OSError("gone"))
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([True, False], 0))
        rig.threads.settle()
        self.assertEqual(rig.store.unflushed_bytes, 0)
