"""Tests of the log's small parts: names, checkpoint, waiters, open files, offsets by time."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.interfaces import IFlushListener
from logd.log.disk.names import folder_partition, index_start, segment_name, segment_start
from logd.log.disk.open_files import OpenFiles
from logd.log.legacy_offsets import offsets_before
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.waiters import VisibilityWaiters, Wait
from logd.testing.memory.files import MemoryFiles
from tests.log.rig import Listener


class NamesTests(SynchronousTestCase):
    """Names of files and folders."""

    def test_a_segments_name_has_20_digits(self) -> None:
        """Any other name is no segment."""
        self.assertEqual(segment_name(12), "00000000000000000012.log")
        self.assertEqual(segment_start("00000000000000000012.log"), 12)
        self.assertEqual(index_start("00000000000000000012.index"), 12)
        zeros = "0" * 20
        for name in ("12.log", zeros + "0.log", zeros + ".log.dropped", "-" + zeros[1:] + ".log", "9" * 20 + ".log"):
            self.assertIsNone(segment_start(name), name)
        self.assertIsNone(index_start("x.index"))

    def test_a_folders_name_has_topic_and_partition(self) -> None:
        """The topic ends at the last '-', and a number is written in one way only."""
        self.assertEqual(folder_partition("a-b-10"), ("a-b", 10))
        self.assertEqual(folder_partition("..-0"), None)
        for name in ("a", "a-", "-1", "a-01", "a--1x", "a b-0", "a-2147483648", "a-0\n", "x" * 201 + "-0"):
            self.assertIsNone(folder_partition(name), name)


class CheckpointTests(SynchronousTestCase):
    """The bytes of a checkpoint."""

    def test_a_checkpoint_is_one_line_of_text(self) -> None:
        """An operator can read it."""
        self.assertEqual(Checkpoint(5, 70).encode(), b"logd-checkpoint 1 5 70 8f549a54\n")

    def test_a_damaged_checkpoint_is_refused(self) -> None:
        """A checkpoint that is cut, or followed by anything, is refused as well."""
        good = Checkpoint(5, 70).encode()
        self.assertEqual(Checkpoint.decode(good), Checkpoint(5, 70))
        wrong = [good[:at] for at in range(len(good))] + [good + b"\n", Checkpoint(71, 70).encode()]
        wrong += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))]
        for each in wrong:
            with self.assertRaises(ValueError):
                Checkpoint.decode(each)


class WaitersTests(SynchronousTestCase):
    """Waits, by position."""

    def test_listeners_are_called_in_order(self) -> None:
        """The order is that of positions, then that of the waits."""
        verifyObject(IFlushListener, Listener())
        random = Random(1)
        waiters = VisibilityWaiters(self.fail)
        order: list[tuple[int, int]] = []

        class Ordered(Listener):
            def __init__(self, key: tuple[int, int]) -> None:
                super().__init__()
                self.key = key

            def visible(self, end: int) -> None:
                order.append(self.key)

        keys = [(random.randrange(10), number) for number in range(200)]
        for key in keys:
            waiters.add(key[0], Ordered(key))
        waiters.reached(4)
        self.assertEqual(order, sorted(key for key in keys if key[0] <= 4))
        waiters.reached(100)
        self.assertEqual(order, sorted(keys))

    def test_cancelled_waits_are_forgotten(self) -> None:
        """Long polls that time out again and again would pile up."""
        waiters = VisibilityWaiters(self.fail)
        kept = waiters.add(5, Listener())
        for _ in range(10_000):
            waiters.add(10, Listener()).cancel()
        self.assertEqual(len(waiters), 1)
        self.assertLess(len(waiters._heap), 200)
        self.assertIsNotNone(kept.listener)

    def test_a_listener_may_wait_and_cancel(self) -> None:
        """The listener adds a wait and cancels another one while it is called."""
        waiters = VisibilityWaiters(self.fail)
        late = Listener()
        waits: list[Wait] = []

        class Busy(Listener):
            def visible(self, end: int) -> None:
                waits[0].cancel()
                waiters.add(end + 1, late)

        waiters.add(1, Busy())
        never = Listener()
        waits.append(waiters.add(2, never))
        waiters.reached(3)
        self.assertEqual((never.calls, late.calls, len(waiters)), ([], [], 1))
        waiters.reached(4)
        self.assertEqual(late.calls, [4])

    def test_a_failure_reaches_every_listener(self) -> None:
        """Each listener gets the failure once, unless its wait was cancelled."""
        waiters = VisibilityWaiters(self.fail)
        listeners = [Listener() for _ in range(3)]
        waits = [waiters.add(1, listener) for listener in listeners]
        waits[1].cancel()
        error = OSError("gone")
        waiters.fail(error)
        waiters.fail(error)
        self.assertEqual([listener.calls for listener in listeners], [[error], [], [error]])

    def test_a_failing_listener_spares_the_others(self) -> None:
        """The error is reported, both for a visible end and for a failure."""

        class Broken(Listener):
            def visible(self, end: int) -> None:
                raise ValueError("visible")

            def failed(self, error: BaseException) -> None:
                raise ValueError("failed")

        reports: list[str] = []
        waiters = VisibilityWaiters(reports.append)
        listeners = [Listener(), Broken(), Listener(), Broken(), Listener()]
        for position, listener in zip((1, 1, 1, 5, 5), listeners, strict=True):
            waiters.add(position, listener)
        waiters.reached(3)
        error = OSError("gone")
        waiters.fail(error)
        self.assertEqual([listener.calls for listener in listeners], [[3], [], [3], [], [error]])
        self.assertEqual([text.splitlines()[-1] for text in reports], ["ValueError: visible", "ValueError: failed"])


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


class OffsetsBeforeTests(SynchronousTestCase):
    """Offsets by time, case by case."""

    def test_offsets_end_at_the_time_asked_for(self) -> None:
        """Ties count, an empty last segment adds no end, and the count takes the newest."""
        segments = [(0, 10.0), (100, 20.0), (200, 30.0)]
        for time, count, expected in (
            (-1, 10, [240, 200, 100, 0]),
            (-1, 2, [240, 200]),
            (-2, 10, [0]),
            (-2, 0, []),
            (30, 10, [200, 100, 0]),
            (29, 10, [100, 0]),
            (9, 10, []),
            (40, 10, [240, 200, 100, 0]),
            (-3, 10, []),
        ):
            self.assertEqual(offsets_before(segments, 240, 40.0, time, count), expected, (time, count))
        self.assertEqual(offsets_before(segments, 200, 40.0, -1, 10), [200, 100, 0])
        self.assertEqual(offsets_before(segments, 150, 40.0, -1, 10), [150, 100, 0])
        self.assertEqual(offsets_before([(0, 1.0)], 0, 40.0, -1, 10), [0])
