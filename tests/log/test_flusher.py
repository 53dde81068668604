"""Tests of logd.log.flusher: the order of syncs, and the bound on the bytes that wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.partition import PartitionLog
from tests.log.entries import plain
from tests.log.rig import Listener, Rig
from tests.log.threads import Threads

ENTRY = plain(b"eleven more")


class OrderTests(SynchronousTestCase):
    """A flusher with one thread."""

    def setUp(self) -> None:
        """Keep the thread busy with partition 0."""
        self.rig = Rig(limits={"flush_workers": 1})
        self.logs = [self.rig.log(partition=number) for number in range(5)]
        self.append(0)

    def append(self, number: int, messages: int = 1) -> PartitionLog:
        """Append to a partition, and return its log."""
        self.logs[number].append([ENTRY], messages, -1)
        return self.logs[number]

    def next(self) -> list[int]:
        """Let the sync under way end; return the partitions that are visible as a whole."""
        self.assertEqual(len(self.rig.threads.works), 1)
        self.rig.threads.work()
        self.rig.threads.deliver()
        return [log.partition for log in self.logs if log.end and log.unflushed_bytes == 0]

    def test_the_oldest_partition_is_flushed_first(self) -> None:
        """The oldest one is that which began to wait first."""
        for number in (3, 1, 3, 2):
            self.append(number)
        self.assertEqual([self.next() for _ in range(4)], [[0], [0, 3], [0, 1, 3], [0, 1, 2, 3]])

    def test_a_due_partition_goes_first(self) -> None:
        """An acknowledgement waits for it."""
        self.append(1)
        self.rig.store.flusher.due_now(self.append(2))
        self.assertEqual([self.next() for _ in range(3)], [[0], [0, 2], [0, 1, 2]])

    def test_an_overdue_partition_is_not_starved(self) -> None:
        """After a second it gets every second turn, whatever is due."""
        for number in (1, 2):
            self.append(number)
        self.rig.clock.advance(1.5)
        for number in (3, 4):
            self.rig.store.flusher.due_now(self.append(number))
        seen = [self.next() for _ in range(5)]
        self.assertEqual(seen, [[0], [0, 3], [0, 1, 3], [0, 1, 3, 4], [0, 1, 2, 3, 4]])

    def test_a_partition_may_be_due_during_its_sync(self) -> None:
        """The partition is first afterwards, for the sync may lack its bytes."""
        self.append(1)
        self.rig.store.flusher.due_now(self.append(0))
        self.assertEqual(self.next(), [])
        self.assertEqual(self.next(), [0])

    def test_idleness_is_told_once(self) -> None:
        """The call comes after the last flush, or at once."""
        told: list[int] = []
        self.append(1)
        self.rig.store.flusher.when_idle(lambda: told.append(self.logs[1].visible_end))
        self.next()
        self.assertEqual(told, [])
        self.next()
        self.rig.store.flusher.when_idle(lambda: told.append(-1))
        self.assertEqual(told, [20, -1])


class WorkersTests(SynchronousTestCase):
    """A flusher with several threads."""

    def test_each_thread_has_one_sync(self) -> None:
        """No partition is synced twice at a time."""
        rig = Rig(limits={"flush_workers": 2})
        for number in (0, 0, 1, 2):
            rig.log(partition=number).append([ENTRY], 1, -1)
        self.assertEqual(len(rig.threads.works), 2)
        rig.threads.work(1)
        rig.threads.deliver()
        self.assertEqual((rig.log(partition=1).visible_end, len(rig.threads.works)), (20, 2))
        rig.threads.settle()
        self.assertEqual([log.unflushed_bytes for log in rig.store.logs()], [0, 0, 0])

    def test_a_failing_listener_spares_the_others(self) -> None:
        """The error is reported, and the flusher goes on."""

        class Broken(Listener):
            def visible(self, end: int) -> None:
                raise ValueError("a bug")

        rig = Rig(limits={"flush_workers": 1})
        log = rig.log()
        log.append([ENTRY], 1, -1)
        listeners = [Broken(), Listener()]
        for listener in listeners:
            log.wait_visible(20, listener)
        done: list[bool] = []
        rig.store.flush_all(lambda: done.append(True))
        rig.threads.settle()
        self.assertEqual((listeners[1].calls, done), ([20], [True]))
        self.assertEqual(len(rig.reports), 1)
        self.assertIn("a listener of /data/t-0 failed", rig.reports[0])
        self.assertIn("ValueError: a bug", rig.reports[0])


class PressureTests(SynchronousTestCase):
    """The bound on unflushed bytes."""

    def test_pressure_ends_at_half_the_bound(self) -> None:
        """The listener is told once when pressure begins, and once when it ends."""
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
        """Bytes that will never be flushed would hold producers back for ever."""
        rig = Rig(limits={"unflushed_limit": 10})
        rig.log().append([ENTRY], 1, -1)
        rig.log().append([ENTRY], 1, -1)
        rig.log().go_offline(OSError("gone"))
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([True, False], 0))
        rig.threads.settle()
        self.assertEqual(rig.store.unflushed_bytes, 0)


@define(eq=False)
class CountingThreads(Threads):
    """Threads that count their works."""

    count: int = 0

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """See IThreads."""
        self.count += 1
        super().run(work, done)


class GatheringTests(SynchronousTestCase):
    """``flush.messages`` and ``flush.ms``: a partition gathers messages before it is flushed."""

    def rig(self, limits: dict[str, int] | None = None, **settings: Any) -> Rig:
        """Return a store with these settings."""
        return Rig(LogSettings(**settings), threads=CountingThreads(), limits=limits or {})

    def append(self, rig: Rig, messages: int = 1, partition: int = 0) -> PartitionLog:
        """Append messages one by one, each time letting all threads finish."""
        log = rig.log(partition=partition)
        for _ in range(messages):
            log.append([ENTRY], 1, -1)
            rig.threads.settle()
        return log

    def syncs(self, rig: Rig) -> int:
        """Return the number of syncs that were begun."""
        assert isinstance(rig.threads, CountingThreads)
        return rig.threads.count

    def test_each_append_is_flushed_at_once(self) -> None:
        """No setting, 0 ms and 1 message all mean that."""
        cases: list[dict[str, int]] = [
            {},
            {"flush_ms": 0},
            {"flush_ms": 0, "flush_messages": 100},
            {"flush_messages": 1},
        ]
        for settings in cases:
            rig = self.rig(None, **settings)
            self.assertEqual(self.append(rig, 3).visible_end, 60, settings)
            self.assertEqual(self.syncs(rig), 3, settings)

    def test_flush_messages_gathers_a_number(self) -> None:
        """No time ends the wait."""
        rig = self.rig(flush_messages=10)
        log = self.append(rig, 9)
        rig.clock.advance(500_000)
        rig.threads.settle()
        self.assertEqual((log.visible_end, self.syncs(rig)), (0, 0))
        self.append(rig, 1)
        self.assertEqual((log.visible_end, self.syncs(rig)), (200, 1))
        self.append(rig, 10)
        self.assertEqual((log.visible_end, self.syncs(rig)), (400, 2))

    def test_flush_ms_gathers_for_a_time(self) -> None:
        """The time is counted from the oldest unflushed message."""
        rig = self.rig(flush_ms=5000)
        log = self.append(rig, 10)
        rig.clock.advance(4)
        self.append(rig, 10)
        rig.clock.advance(0.9)
        rig.threads.settle()
        self.assertEqual((log.visible_end, self.syncs(rig)), (0, 0))
        rig.clock.advance(0.2)
        rig.threads.settle()
        self.assertEqual((log.visible_end, self.syncs(rig)), (400, 1))
        self.append(rig)
        rig.clock.advance(4.9)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 400)
        rig.clock.advance(0.2)
        rig.threads.settle()
        self.assertEqual((log.visible_end, self.syncs(rig)), (420, 2))

    def test_the_number_may_come_before_the_time(self) -> None:
        """The time begins anew with the next message."""
        rig = self.rig(flush_messages=3, flush_ms=1000)
        log = self.append(rig, 2)
        rig.clock.advance(0.9)
        self.append(rig, 2)
        self.assertEqual(log.visible_end, 60)
        rig.clock.advance(0.9)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 60)
        rig.clock.advance(0.2)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 80)

    def test_an_acknowledgement_does_not_wait(self) -> None:
        """All messages before it are flushed with it."""
        rig = self.rig(flush_messages=1000, flush_ms=60_000)
        log = self.append(rig, 3)
        rig.store.flusher.due_now(log)
        rig.threads.settle()
        self.assertEqual((log.visible_end, self.syncs(rig)), (60, 1))
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])

    def test_messages_gather_anew_during_a_sync(self) -> None:
        """The time begins with the first of the new messages."""
        rig = self.rig(flush_messages=2, flush_ms=1000)
        log = rig.log()
        log.append([ENTRY], 2, -1)
        rig.clock.advance(0.5)
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual((log.visible_end, log.end), (20, 40))
        rig.clock.advance(0.9)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 20)
        rig.clock.advance(0.2)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 40)

    def test_enough_messages_are_flushed_next(self) -> None:
        """All of them came during a sync."""
        rig = self.rig(flush_messages=2)
        log = rig.log()
        log.append([ENTRY], 2, -1)
        log.append([ENTRY], 2, -1)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 40)

    def test_gathering_stays_below_the_bound(self) -> None:
        """Above half of it nothing gathers, or producers would be paused for it."""
        rig = self.rig({"unflushed_limit": 200}, flush_messages=1000, flush_ms=60_000)
        logs = [self.append(rig, partition=number) for number in range(5)]
        self.assertEqual([log.visible_end for log in logs], [0] * 5)
        self.append(rig, partition=3)
        self.assertEqual([log.unflushed_bytes for log in logs], [0] * 5)
        self.assertEqual((rig.pressure, rig.store.unflushed_bytes), ([], 0))
        self.append(rig, partition=3)
        self.assertEqual(logs[3].unflushed_bytes, 20)

    def test_a_stop_flushes_gathered_messages(self) -> None:
        """Messages that still come are flushed as well."""
        rig = self.rig(flush_messages=1000, flush_ms=60_000)
        log = self.append(rig, 2)
        done: list[int] = []
        rig.store.flush_all(lambda: done.append(log.visible_end))
        log.append([ENTRY], 1, -1)
        self.assertEqual(done, [])
        rig.threads.settle()
        self.assertEqual(done, [60])
        rig.store.close()
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])

    def test_a_close_leaves_no_timer(self) -> None:
        """The store was not flushed before."""
        rig = self.rig(flush_ms=60_000)
        self.append(rig)
        rig.store.close()
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])

    def test_new_settings_hold_at_once(self) -> None:
        """The settings count for gathered messages too."""
        rig = self.rig(flush_ms=60_000)
        log = self.append(rig, 3)
        log.configure(LogSettings(flush_messages=4))
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])
        self.append(rig)
        self.assertEqual(log.visible_end, 80)
        self.append(rig)
        log.configure(LogSettings())
        rig.threads.settle()
        self.assertEqual(log.visible_end, 100)

    def test_an_offline_partition_gathers_nothing(self) -> None:
        """The partition's timer goes."""
        rig = self.rig(flush_ms=1000)
        self.append(rig).go_offline(OSError("gone"))
        self.assertEqual([call for call in rig.clock.getDelayedCalls() if call.active()], [])
        self.assertEqual(rig.store.unflushed_bytes, 0)

    def test_a_closed_segment_is_flushed(self) -> None:
        """Files would stay open by the hundreds otherwise."""
        rig = self.rig(flush_messages=1000, segment_bytes=50)
        log = self.append(rig, 4)
        self.assertEqual((log.visible_end, log.end), (60, 80))

    def test_many_open_segments_end_the_gathering(self) -> None:
        """The oldest that gather are flushed, so that they can be closed."""
        rig = self.rig({"open_writers_limit": 3}, flush_messages=1000)
        for number in range(10):
            self.append(rig, partition=number)
        flushed = [log.partition for log in rig.store.logs() if log.end == log.visible_end]
        self.assertGreaterEqual(len(flushed), 7)
