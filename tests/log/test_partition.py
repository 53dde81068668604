"""Tests of logd.log.partition: appending, reading, visibility, rolling, and failures."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.config import LogSettings
from logd.errors import CorruptMessage, OffsetOutOfRange, PartitionOffline, StorageFull, UnknownError
from logd.interfaces import IFileRange
from logd.log.flusher import AGAIN_SECONDS
from logd.log.group_sync_choice import LEAST_GROUP
from tests.log.entries import plain, timed
from tests.log.rig import BEGIN, Listener, Rig

#: 20 bytes as an entry.
ENTRY = plain(b"eleven more")


class AppendTests(SynchronousTestCase):
    """Appends to a log."""

    def test_ids_are_offsets(self) -> None:
        """An append returns the offset of its first byte, and the sets lie there one after the other."""
        rig = Rig()
        log = rig.log()
        self.assertEqual(log.append([ENTRY], 1, -1), 0)
        self.assertEqual(log.append([ENTRY, plain(b"x"), ENTRY], 3, -1), 20)
        self.assertEqual(log.end, 70)
        self.assertEqual(rig.data(), ENTRY + ENTRY + plain(b"x") + ENTRY)

    def test_nothing_is_visible_before_the_flush(self) -> None:
        """A consumer must not see a message that a loss of power takes back."""
        rig = Rig()
        log = rig.log()
        log.append([ENTRY], 1, -1)
        self.assertEqual((log.visible_end, log.unflushed_bytes), (0, 20))
        self.assertIsNone(log.read(0, 100))
        rig.threads.work()
        self.assertIsNone(log.read(0, 100))
        rig.threads.deliver()
        self.assertEqual((log.visible_end, log.unflushed_bytes), (20, 0))
        self.assertEqual(rig.content(log), ENTRY)

    def test_a_sync_covers_earlier_appends_alone(self) -> None:
        """Later ones share the next sync."""
        rig = Rig()
        log = rig.log()
        log.append([ENTRY], 1, -1)
        log.append([ENTRY], 1, -1)
        log.append([ENTRY], 1, -1)
        rig.threads.work()
        rig.threads.deliver()
        self.assertEqual(log.visible_end, 20)
        self.assertEqual(len(rig.threads.works), 1)
        rig.threads.settle()
        self.assertEqual(log.visible_end, 60)

    def test_a_full_disk_keeps_no_byte(self) -> None:
        """The append works again once there is room."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.files.room = 30
        with self.assertRaises(StorageFull):
            log.append([ENTRY, ENTRY], 2, -1)
        self.assertEqual((log.end, rig.data()), (20, ENTRY))
        self.assertEqual(rig.content(log), ENTRY)
        rig.files.room = None
        self.assertEqual(log.append([ENTRY], 1, -1), 20)

    def test_a_full_disk_refuses_a_roll(self) -> None:
        """The next append makes the segment."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY)
        rig.files.errors["open"] = [OSError(errno.ENOSPC, "full")]
        with self.assertRaises(StorageFull):
            log.append([ENTRY], 1, -1)
        self.assertEqual(log.append([ENTRY], 1, -1), 20)
        self.assertEqual([start for start, _, _ in log.segments()], [0, 20])

    def test_too_many_open_files_may_pass(self) -> None:
        """The append can be tried again, and the partition stays."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY)
        rig.files.errors["open"] = [OSError(errno.EMFILE, "too many")]
        with self.assertRaises(UnknownError):
            log.append([ENTRY], 1, -1)
        self.assertIsNone(log.offline)

    def test_a_flush_waits_for_a_descriptor(self) -> None:
        """A new segment's folder cannot be opened to be synced: nothing of it is visible before that."""
        for together in (False, True):
            rig = Rig(LogSettings(segment_bytes=10, flush_messages=1000), syncs_whole=together)
            logs = [rig.log(f"t{number}") for number in range(LEAST_GROUP + 3)]
            listeners = [Listener() for _ in logs]
            for log, listener in zip(logs, listeners, strict=True):
                for _ in range(2):
                    log.append([ENTRY], 1, -1)
                log.wait_visible(40, listener)
                log.flush_soon()
            rig.files.errors["sync_directory"] = [OSError(errno.EMFILE, "too many")] * 30
            while rig.files.errors["sync_directory"]:
                rig.threads.settle()
                self.assertLess(0, rig.store.unflushed_bytes)
                rig.clock.advance(AGAIN_SECONDS)
            rig.threads.settle()
            self.assertEqual([log.offline for log in logs], [None] * len(logs))
            self.assertEqual([listener.calls for listener in listeners], [[40]] * len(logs))
            self.assertEqual((rig.store.unflushed_bytes, {log.flushed_end for log in logs}), (0, {40}))
            handles = rig.files.open_handles
            rig.stop()
            self.assertEqual((rig.files.open_handles, handles), (0, len(logs) + 1 + together))
            rig.kill(power_lost=True)
            rig.open()
            self.assertEqual([rig.log(log.topic).end for log in logs], [40] * len(logs))

    def test_an_input_output_error_takes_it_offline(self) -> None:
        """The disk failed at a roll; other partitions are served."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY)
        rig.files.errors["open"] = [OSError(errno.EIO, "broken disk")]
        with self.assertRaisesRegex(PartitionOffline, "broken disk"):
            log.append([ENTRY], 1, -1)
        with self.assertRaises(PartitionOffline):
            log.append([ENTRY], 1, -1)
        self.assertEqual(rig.log("other").append([ENTRY], 1, -1), 0)


class RollTests(SynchronousTestCase):
    """New segments."""

    def test_a_segment_rolls_by_its_size(self) -> None:
        """A segment rolls when it is larger than the limit, not when it equals it."""
        rig = Rig(LogSettings(segment_bytes=40))
        log = rig.filled(*[ENTRY] * 6)
        self.assertEqual([(start, count) for start, count, _ in log.segments()], [(0, 60), (60, 60)])

    def test_a_segment_rolls_by_its_age(self) -> None:
        """The age is that of its first append."""
        rig = Rig(LogSettings(segment_ms=10_000))
        log = rig.filled(ENTRY)
        rig.clock.advance(9.5)
        log.append([ENTRY], 1, -1)
        rig.clock.advance(0.5)
        log.append([ENTRY], 1, -1)
        self.assertEqual([start for start, _, _ in log.segments()], [0, 40])

    def test_a_segments_age_survives_a_restart(self) -> None:
        """After a clean stop the age still counts from the first append."""
        rig = Rig(LogSettings(segment_ms=10_000))
        rig.filled(ENTRY)
        rig.clock.advance(6)
        rig.filled(ENTRY)
        rig.stop()
        rig.open()
        rig.clock.advance(5)
        log = rig.filled(ENTRY)
        self.assertEqual([start for start, _, _ in log.segments()], [0, 40])

    def test_rolled_segments_are_synced_first(self) -> None:
        """One flush covers the closed segment, the new one and its name."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.log()
        log.append([ENTRY], 1, -1)
        log.append([ENTRY], 1, -1)  # rolls while the first sync is under way
        rig.threads.settle()
        self.assertEqual(log.visible_end, 40)
        self.assertEqual((rig.files.durable(rig.path(0)), rig.files.durable(rig.path(20))), (ENTRY, ENTRY))


class ReadTests(SynchronousTestCase):
    """Ranges for sendfile."""

    def test_a_range_keeps_its_file_open(self) -> None:
        """The range tells where in the file its bytes are."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY, plain(b"second"))
        before = rig.files.open_handles
        found = log.read(3, 7)
        assert found is not None
        verifyObject(IFileRange, found)
        self.assertEqual((found.file_position, found.count), (3, 7))
        self.assertEqual(found.file.read_at(3, 7), ENTRY[3:10])
        found.close()
        self.assertEqual(rig.files.open_handles, before + 1)  # idle, for the next reader

    def test_a_range_ends_with_its_segment(self) -> None:
        """Sendfile sends from one file."""
        log = Rig(LogSettings(segment_bytes=10)).filled(ENTRY, ENTRY)
        for offset, count in ((0, 20), (19, 1), (20, 20), (39, 1)):
            found = log.read(offset, 1000)
            assert found is not None
            self.assertEqual(found.count, count)

    def test_only_the_log_can_be_read(self) -> None:
        """Between the visible end and the log's end there is nothing yet; outside is an error."""
        rig = Rig()
        log = rig.filled(ENTRY)
        log.append([ENTRY], 1, -1)
        for offset in (20, 30, 40):
            self.assertIsNone(log.read(offset, 10))
        for offset in (-1, 41, 1 << 62):
            with self.assertRaises(OffsetOutOfRange):
                log.read(offset, 10)
        self.assertIsNone(log.read(0, 0))

    def test_an_unopenable_segment_may_pass(self) -> None:
        """Too many files are open, and the next read works."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY, ENTRY)
        rig.files.errors["open_for_reading"] = [OSError(errno.EMFILE, "too many open files")]
        with self.assertRaisesRegex(UnknownError, "too many"):
            log.read(0, 10)
        self.assertEqual(rig.content(log), ENTRY + ENTRY)


class WaitTests(SynchronousTestCase):
    """Waits for the visible end."""

    def test_a_listener_is_called_once(self) -> None:
        """The call comes when the listener's position is reached."""
        rig = Rig()
        log = rig.log()
        near, far = Listener(), Listener()
        log.wait_visible(20, near)
        log.wait_visible(40, far)
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual((near.calls, far.calls), ([20], []))
        log.append([ENTRY, ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual((near.calls, far.calls), ([20], [60]))

    def test_a_visible_position_is_told_at_once(self) -> None:
        """The call itself tells it."""
        listener = Listener()
        self.assertIsNone(Rig().filled(ENTRY).wait_visible(20, listener))
        self.assertEqual(listener.calls, [20])

    def test_a_cancelled_wait_is_not_called(self) -> None:
        """A second cancellation changes nothing."""
        rig = Rig()
        log = rig.log()
        listener = Listener()
        wait = log.wait_visible(20, listener)
        assert wait is not None
        wait.cancel()
        wait.cancel()
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        self.assertEqual(listener.calls, [])

    def test_a_failed_sync_takes_it_offline(self) -> None:
        """Waiters fail, and nothing is synced again: the kernel may have dropped the bytes."""
        rig = Rig()
        log = rig.filled(ENTRY)
        listener = Listener()
        log.append([ENTRY], 1, -1)
        log.append([ENTRY], 1, -1)
        log.wait_visible(60, listener)
        rig.files.fail_syncs = 1
        rig.threads.settle()
        self.assertIsInstance(listener.calls[0], PartitionOffline)
        self.assertEqual((log.visible_end, rig.threads.works, rig.store.unflushed_bytes), (20, [], 0))
        for call in (lambda: log.append([ENTRY], 1, -1), lambda: log.read(0, 1), lambda: log.offsets_before(-1, 1)):
            with self.assertRaises(PartitionOffline):
                call()
        late = Listener()
        log.wait_visible(60, late)
        self.assertIsInstance(late.calls[0], PartitionOffline)

    def test_unsynced_bytes_are_not_sound(self) -> None:
        """After a failed sync and a restart only the page cache has them."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.files.random.seed(0)
        log.append([plain(bytes(100))], 1, -1)
        rig.files.fail_syncs = 1
        rig.threads.settle()
        on_disk = rig.files.durable(rig.path())
        self.assertEqual(len(rig.data()), 129)  # the cache still has it all
        rig.kill()
        rig.open()
        self.assertEqual(log.folder, rig.log().folder)
        self.assertEqual(rig.content(rig.log()), ENTRY)
        self.assertNotEqual(on_disk, ENTRY + plain(bytes(100)))


class OffsetsTests(SynchronousTestCase):
    """Offsets by time."""

    def test_offsets_are_as_documented(self) -> None:
        """The example is in docs/protocol.md: 20 appends of 12 bytes, at a limit of 100."""
        rig = Rig(LogSettings(segment_bytes=100))
        log = rig.filled(*[plain(b"abc")] * 20)
        rig.clock.advance(10)
        now = int(rig.clock.seconds() * 1000)
        self.assertEqual(log.offsets_before(-1, 10), [240, 216, 108, 0])
        self.assertEqual(log.offsets_before(now - 1, 10), [216, 108, 0])
        self.assertEqual(log.offsets_before(-2, 10), [0])
        self.assertEqual(log.offsets_before(-1, 1), [240])
        self.assertEqual(log.offsets_before(int(BEGIN * 1000) - 1, 10), [])

    def test_offsets_survive_a_restart(self) -> None:
        """The offsets then come from the times of the files."""
        rig = Rig(LogSettings(segment_bytes=100))
        rig.filled(*[plain(b"abc")] * 20)
        rig.stop()
        rig.open()
        rig.clock.advance(10)
        self.assertEqual(rig.log().offsets_before(int(rig.clock.seconds() * 1000) - 1, 10), [216, 108, 0])

    def test_invisible_bytes_do_not_count(self) -> None:
        """The end among the offsets is the visible one."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(ENTRY)
        log.append([ENTRY], 1, -1)
        self.assertEqual(log.offsets_before(-1, 10), [20, 0])


class BoundaryTests(SynchronousTestCase):
    """Entries, looked up by position or time."""

    def test_some_boundaries_are_known_without_the_disk(self) -> None:
        """Known are the starts of segments, of appends in memory, and the ends."""
        rig = Rig(LogSettings(segment_bytes=50, index_bytes=1))
        log = rig.filled(*[ENTRY] * 5)
        known = [offset for offset in range(101) if log.is_boundary_known(offset)]
        self.assertEqual(known, [0, 60, 80, 100])

    def test_each_position_has_its_entry(self) -> None:
        """The index may be dense or sparse."""
        for index_bytes in (1, 50, 4096):
            rig = Rig(LogSettings(segment_bytes=90, index_bytes=index_bytes))
            sizes = [0, 7, 30, 1, 60, 2, 90, 5, 5, 5]
            log = rig.filled(*[plain(bytes(size)) for size in sizes])
            starts = [0]
            for size in sizes:
                starts.append(starts[-1] + 9 + size)
            for offset in range(log.end + 1):
                self.assertEqual(log.find_boundary(offset), max(s for s in starts if s <= offset), offset)
            with self.assertRaises(OffsetOutOfRange):
                log.find_boundary(log.end + 1)

    def test_an_entry_with_a_damaged_length_begins_where_it_did(self) -> None:
        """A reader that goes on there gets its bytes, and finds the damage; what is behind its beginning is unknown."""
        for index_bytes in (1, 4096):
            rig = Rig(LogSettings(index_bytes=index_bytes))
            log = rig.filled(*[plain(b"x") for _ in range(5)])
            last = log.end - 10
            rig.data()[last : last + 4] = (5000).to_bytes(4, "big")
            self.assertEqual(log.find_boundary(last), last)
            self.assertEqual(log.find_boundary(last - 1), last - 10)
            error = self.assertRaises(CorruptMessage, log.find_boundary, last + 1)
            self.assertEqual(error.position, last)

    def test_a_time_has_its_position(self) -> None:
        """The lookup goes by timestamps, or by the time of the append for messages without one."""
        rig = Rig(LogSettings(segment_bytes=25, index_bytes=1))
        log = rig.log()
        begin = int(BEGIN * 1000)
        marks = [(-1, 0), (5, 1), (-1, 2), (50_000, 3), (4_000, 4), (-1, 5), (60_000, 6), (-1, 7)]
        starts = []
        for stamp, after in marks:
            rig.clock.advance(BEGIN + after - rig.clock.seconds())
            entry = plain(b"x") if stamp < 0 else timed(b"x", begin + stamp)
            starts.append(log.append([entry], 1, -1 if stamp < 0 else begin + stamp))
        rig.threads.settle()
        self.assertGreater(len(log.segments()), 2)
        effective = [stamp if stamp >= 0 else after * 1000 for stamp, after in marks]
        for asked in (0, 1, 5, 6, 2000, 2001, 4000, 5000, 5001, 7000, 7001, 50_000, 55_000, 60_000):
            expected = next(start for start, time in zip(starts, effective, strict=True) if time >= asked)
            self.assertEqual(log.position_at_time(begin + asked), expected, asked)
        self.assertEqual(log.position_at_time(begin + 60_001), log.visible_end)

    def test_a_lookup_by_time_leaves_out_nothing(self) -> None:
        """The entry may lie between two boundaries of the index."""
        rig = Rig()
        log = rig.filled(plain(b"early"), plain(b"early"))
        rig.clock.advance(10)
        asked = int(rig.clock.seconds() * 1000)
        late = log.append([plain(b"late")], 1, -1)
        rig.threads.settle()
        self.assertLessEqual(log.position_at_time(asked), late)
        self.assertEqual(log.position_at_time(asked + 1), log.visible_end)

    def test_a_lookup_by_time_leaves_out_nothing_where_the_clock_was_set_back(self) -> None:
        """Messages from before that are found by the time that the clock had then, in a closed segment too."""
        rig = Rig(LogSettings(segment_bytes=25, index_bytes=1))
        log = rig.filled(ENTRY)
        rig.clock.rightNow -= 3600
        for _ in range(3):
            rig.filled(ENTRY)
            self.assertEqual(log.position_at_time(int(BEGIN - 1800) * 1000), 0)
        self.assertEqual(log.position_at_time(int(BEGIN + 1) * 1000), log.visible_end)
