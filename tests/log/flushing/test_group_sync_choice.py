"""Tests of logd.log.group_sync_choice: when partitions share a sync, and when each has its own."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.log import group_sync_choice
from logd.log.group_sync_choice import GroupSyncs, open_groups
from logd.testing.memory.files import MemoryFiles
from tests.log.entries import plain
from tests.log.rig import Listener, Rig


class GroupSyncsTests(SynchronousTestCase):
    """The choice, by measured seconds on a clock."""

    def setUp(self) -> None:
        """Make the choice for two threads; a partition's own sync takes 10 ms."""
        self.clock = Clock()
        self.files = MemoryFiles(syncs_whole=True)
        groups = open_groups(self.files, "/", self.clock, 2)
        assert groups is not None
        self.groups: GroupSyncs = groups
        self.one_takes(0.01)

    def one_takes(self, seconds: float) -> None:
        """Let a partition's own sync take some time."""
        began = self.clock.seconds()
        self.clock.advance(seconds)
        self.groups.one_took(began)

    def group_takes(self, seconds: float) -> None:
        """Let a group of 100 partitions take some time."""
        self.groups.begun()
        self.clock.advance(seconds)
        self.groups.ended(100, seconds)

    def test_few_partitions_have_a_sync_each(self) -> None:
        """Each is answered sooner that way."""
        least = group_sync_choice.LEAST_GROUP
        self.assertEqual([self.groups.allows(count, 0) for count in (least - 1, least)], [False, True])

    def test_one_group_is_under_way_at_a_time(self) -> None:
        """The journal of a file system is committed by one at a time too."""
        self.groups.begun()
        self.assertFalse(self.groups.allows(100, 0))
        self.groups.ended(100, 0.02)
        self.assertTrue(self.groups.allows(100, 0))

    def test_many_partitions_wait_for_the_group_under_way(self) -> None:
        """They share the next one; a few have a sync each meanwhile, and all of them if the group takes long."""
        least, longest = group_sync_choice.LEAST_GROUP, group_sync_choice.LONGEST_HOLD_SECONDS
        self.assertFalse(self.groups.holds(100))
        self.groups.begun()
        self.assertEqual([self.groups.holds(count) for count in (least - 1, least)], [False, True])
        self.clock.advance(longest)
        self.assertFalse(self.groups.holds(100))
        self.groups.ended(100, longest)
        self.groups.begun()
        self.assertTrue(self.groups.holds(100))
        self.groups.ended(100, 0.1)
        self.assertFalse(self.groups.holds(100))

    def test_a_hold_ends_once_however_its_times_are_rounded(self) -> None:
        """The sum of the beginning and the hold is less than the exact one here, by what no clock can wait."""
        self.clock.rightNow = 0.783547566493975
        starts: list[bool] = []

        def start() -> None:
            starts.append(self.groups.holds(100))
            if starts[-1] and len(starts) < 5:
                self.groups.after_hold(start)

        self.groups.begun()
        self.groups.after_hold(start)
        self.clock.advance(group_sync_choice.LONGEST_HOLD_SECONDS)
        self.assertEqual(starts, [False])

    def test_a_group_that_was_far_slower_than_the_sum_is_followed_by_a_pause(self) -> None:
        """100 partitions take 0.5 s on two threads; 1.1 s is over twice that, and 22 s pass before the next attempt."""
        self.group_takes(0.9)
        self.assertTrue(self.groups.allows(100, 0))
        self.group_takes(1.1)
        self.clock.advance(21.9)
        self.assertFalse(self.groups.allows(100, 0))
        self.clock.advance(0.2)
        self.assertTrue(self.groups.allows(100, 0))

    def test_the_pause_ends_once_syncs_one_by_one_are_the_slower_ones(self) -> None:
        """A disk that was busy with one thing may be busy with another: 1.1 s for 100 is fast beside 30 ms for one."""
        self.group_takes(1.1)
        self.one_takes(0.01)
        self.assertFalse(self.groups.allows(100, 0))
        for _ in range(4):
            self.one_takes(0.03)
        self.assertTrue(self.groups.allows(100, 0))

    def test_a_sync_beside_a_group_is_no_measure(self) -> None:
        """The group writes the same journal, so such a sync may find its work done."""
        for seconds in (0.001, 0.5):
            before = self.clock.seconds()
            self.groups.begun()
            self.one_takes(seconds)
            self.groups.ended(100, 0.4)
            self.clock.advance(0.001)
            self.groups.one_took(before)
        self.group_takes(0.9)
        self.assertTrue(self.groups.allows(100, 0))
        self.group_takes(1.1)
        self.assertFalse(self.groups.allows(100, 0))

    def test_the_pause_is_bounded(self) -> None:
        """A sync of minutes, for a program that copied a disk, does not end the groups of the day."""
        self.group_takes(500.0)
        self.assertFalse(self.groups.allows(100, 0))
        self.clock.advance(group_sync_choice.LONGEST_PAUSE_SECONDS)
        self.assertTrue(self.groups.allows(100, 0))

    def test_what_others_have_to_write_is_not_waited_for(self) -> None:
        """The broker's own bytes do not count as others', nor the pages that its partitions have dirtied with them."""
        self.files.dirty_bytes = group_sync_choice.OTHERS_BYTES + 100 * group_sync_choice.PAGES_BYTES + 1001
        self.assertFalse(self.groups.allows(100, 1000))
        self.clock.advance(group_sync_choice.BUSY_PAUSE_SECONDS)
        self.assertTrue(self.groups.allows(100, 1001))

    def test_a_file_system_whose_sync_proves_nothing_is_not_used(self) -> None:
        """Each partition is synced by itself there."""
        self.assertIs(open_groups(MemoryFiles(), "/", self.clock, 2), None)

    def test_the_file_system_is_closed_after_the_sync_under_way(self) -> None:
        """Its descriptor's number could be given to a file elsewhere, while a thread is about to use it."""
        self.groups.begun()
        self.groups.close()
        self.assertEqual(self.files.open_handles, 1)
        self.groups.ended(100, 0.1)
        self.assertEqual(self.files.open_handles, 0)


class FlusherTests(SynchronousTestCase):
    """A store over a disk in memory that offers syncs of the whole."""

    def rig(self) -> Rig:
        """Return a store with twenty partitions that were appended to while its only thread was busy."""
        rig = Rig(limits={"flush_workers": 1}, syncs_whole=True)
        for number in range(20):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
        return rig

    def test_waiting_partitions_share_the_next_sync(self) -> None:
        """The first is under way already; the other nineteen follow in one work of the thread, and become visible."""
        rig = self.rig()
        listener = Listener()
        rig.log(partition=7).wait_visible(20, listener)
        for _ in range(2):
            self.assertEqual(len(rig.threads.works), 1)
            rig.threads.work()
            rig.threads.deliver()
        self.assertEqual([log.visible_end for log in rig.store.logs()], [20] * 20)
        self.assertEqual((listener.calls, rig.threads.works, rig.store.unflushed_bytes), ([20], [], 0))

    def test_many_wait_for_the_next_group_while_one_is_under_way(self) -> None:
        """A second thread is left alone then, and syncs one by one what is not enough for a group."""
        rig = Rig(limits={"flush_workers": 2}, syncs_whole=True)
        for number in range(20):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
        rig.threads.work()
        rig.threads.deliver()  # one partition alone; its thread takes a group
        for number in range(20, 40):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
        under_way = len(rig.threads.works)
        rig.threads.work()
        rig.threads.deliver()  # the other one that was alone
        self.assertEqual((under_way, len(rig.threads.works)), (2, 1))
        rig.threads.settle()
        self.assertEqual([log.visible_end for log in rig.store.logs()], [20] * 40)

    def test_what_waits_for_a_group_that_takes_long_is_synced_without_another_event(self) -> None:
        """The producers of those partitions wait for just that, and so send nothing that would begin their syncs."""
        rig = Rig(limits={"flush_workers": 2}, syncs_whole=True)
        for number in range(20):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
        rig.threads.work()
        rig.threads.deliver()
        for number in range(20, 40):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
        rig.threads.work()
        rig.threads.deliver()  # the group alone is under way, and twenty partitions wait for it
        rig.clock.advance(group_sync_choice.LONGEST_HOLD_SECONDS / 2)
        held = len(rig.threads.works)
        rig.clock.advance(group_sync_choice.LONGEST_HOLD_SECONDS / 2)
        self.assertEqual((held, len(rig.threads.works)), (1, 2))
        rig.threads.settle()
        self.assertEqual([log.visible_end for log in rig.store.logs()], [20] * 40)

    def test_no_timer_is_left_of_a_group_that_others_waited_for(self) -> None:
        """It ends with the group, as those that waited are synced then."""
        rig = Rig(limits={"flush_workers": 2}, syncs_whole=True)
        before = len(rig.clock.calls)
        for number in range(40):
            rig.log(partition=number).append([plain(b"eleven more")], 1, -1)
            if number == 19:
                rig.threads.work()
                rig.threads.deliver()
        rig.threads.work()
        rig.threads.deliver()
        held = len(rig.clock.calls)
        rig.threads.settle()
        self.assertEqual((held - before, len(rig.clock.calls) - before), (1, 0))

    def test_a_failed_write_takes_its_partition_offline_and_no_other(self) -> None:
        """The promise of a sync by itself is kept in a group."""
        rig = self.rig()
        log = rig.log(partition=7)
        rig.files._inode(f"{log.folder}/{0:020d}.log").fail(rig.files.random)
        rig.threads.settle()
        offline = [each.partition for each in rig.store.logs() if each.offline is not None]
        self.assertEqual((offline, log.visible_end), ([7], 0))
        self.assertEqual({each.visible_end for each in rig.store.logs() if each is not log}, {20})

    def test_an_error_of_the_group_itself_fails_every_partition(self) -> None:
        """A bug must not look like a flush."""
        rig = self.rig()
        rig.threads.work()
        rig.threads.deliver()
        _, done = rig.threads.works.pop()
        done(None, RuntimeError("a bug"))
        self.assertEqual(len([log for log in rig.store.logs() if log.offline is not None]), 19)
        self.assertEqual(rig.store.unflushed_bytes, 0)

    def test_a_store_without_groups_syncs_one_by_one(self) -> None:
        """``flush.together`` is false."""
        rig = Rig(limits={"flush_workers": 1, "flush_together": False}, syncs_whole=True)
        self.assertIs(rig.store.flusher.groups, None)
