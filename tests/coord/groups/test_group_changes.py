"""Tests of logd.coord.groups.group_changes and inspection: groups that are read and changed from outside."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail

from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from logd.coord.groups.group_changes import GroupChanged, GroupLive, delete_group, move_positions
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, list_groups, read_group
from logd.coord.registries.consumers import PatternStreams, Subscription
from logd.errors import PartitionLost
from tests.coord.groups.rig import GroupTestCase, tp


class AdministrationTestCase(GroupTestCase):
    """A group, and an administrator that is no member."""

    def do(self, work: Any) -> Any:
        """Return the result of a coroutine."""
        return self.get(Deferred.fromCoroutine(work))

    def refused(self, work: Any, kind: type[Exception]) -> None:
        """Check that the coroutine fails with an error of this kind."""
        waiting = Deferred.fromCoroutine(work)
        self.run_for(0.5)
        self.failureResultOf(waiting, kind)

    def entry(self) -> GroupEntry:
        """Return the group as the tree has it."""
        found = self.do(read_group(self.outsider, "g"))
        assert isinstance(found, GroupEntry)
        return found


class InspectionTests(AdministrationTestCase):
    """read_group() and list_groups()."""

    def test_a_group_shows_consumers_owners_and_positions(self) -> None:
        """A group that its last consumer has left keeps its positions."""
        self.assertEqual(self.do(list_groups(self.outsider)), [])
        self.refused(read_group(self.outsider, "g"), UnknownGroup)
        a, b = self.joined("a", "b")
        a.reader.positions = {tp(0): 77}
        self.get(a.membership.commit())
        entry = self.entry()
        self.assertEqual(dict(entry.consumers), {"a": Subscription({"t": 1}), "b": Subscription({"t": 1})})
        self.assertEqual({where: owner.stream for where, owner in entry.owners.items()}, self.owners())
        self.assertEqual((entry.offsets[tp(0)].position, entry.offsets[tp(1)].position), (77, None))
        self.assertTrue(entry.live)
        for member in (a, b):
            self.get(member.membership.leave())
        self.assertFalse(self.entry().live)
        self.assertEqual(self.entry().topics, ("t",))
        self.assertEqual(self.do(list_groups(self.outsider)), ["g"])

    def test_a_broken_entry_is_still_a_live_consumer(self) -> None:
        """A topic that is subscribed by a pattern is known as subscribed."""
        self.joined("a", subscription=Subscription({}, (PatternStreams("t.*", 1),)))
        self.get(self.outsider.create(paths.group_consumer("g", "zz"), b"?", ephemeral=True))
        entry = self.entry()
        self.assertEqual((entry.subscribed("t"), entry.subscribed("u")), (True, False))
        self.assertEqual(entry.consumers["zz"], Subscription())


class MovePositionsTests(AdministrationTestCase):
    """move_positions()."""

    def test_an_idle_owner_goes_on_at_the_moved_position(self) -> None:
        """It has nothing to commit; partitions that were not moved go on where they were."""
        a, b = self.joined("a", "b")
        for member, first in ((a, 0), (b, 4)):
            member.reader.positions = {tp(number): 100 for number in range(first, first + 4)}
            self.get(member.membership.commit())
        self.do(move_positions(self.outsider, "g", self.entry().offsets, {tp(0): 7, tp(5): 8}))
        self.settle()
        self.assertEqual((a.reader.began[tp(0)], a.reader.began[tp(1)]), (7, 100))
        self.assertEqual((b.reader.began[tp(5)], b.reader.began[tp(4)]), (8, 100))
        self.assertEqual(self.committed(0), b"7")

    def test_an_owner_never_writes_over_a_move(self) -> None:
        """It commits messages that it has handled since, and fails to."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(0): 100, tp(1): 200}
        moving = Deferred.fromCoroutine(move_positions(self.outsider, "g", self.entry().offsets, {tp(0): 7}))
        for _ in range(20):
            self.clock.advance(0.001)
        committing = a.membership.commit().addErrback(lambda _: None)
        self.get(moving)
        self.settle()
        self.assertTrue(committing.called)
        self.assertEqual((self.committed(0), self.committed(1)), (b"7", b"200"))
        self.assertEqual((a.reader.began[tp(0)], a.reader.began[tp(1)]), (7, 200))
        self.assertGreater(a.membership.counts.fenced, 0)

    def test_a_move_is_not_taken_for_a_lost_commit(self) -> None:
        """The owner's commit to the same position was not done, and its answer was lost."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(0): 5}
        multi = a.coordination.multi
        self.patch(a.coordination, "multi", lambda operations, timeout=None: fail(ConnectionLoss()))
        self.failureResultOf(a.membership.commit(), ConnectionLoss)
        self.patch(a.coordination, "multi", multi)
        a.reader.positions = {tp(0): 6}
        self.do(move_positions(self.outsider, "g", self.entry().offsets, {tp(0): 5}))
        failing = a.membership.commit()
        self.run_for(0.1)
        self.failureResultOf(failing, PartitionLost)
        self.assertEqual(self.committed(0), b"5")

    def test_a_move_costs_each_member_one_rebalance(self) -> None:
        """A second rebalance would stop the delivery again, for nothing."""
        (a,) = self.joined("a")
        before = a.membership.counts.rebalances
        self.do(move_positions(self.outsider, "g", self.entry().offsets, {tp(0): 7}))
        self.settle(10.0)
        self.assertEqual(a.membership.counts.rebalances, before + 1)

    def test_a_move_on_stale_positions_changes_nothing(self) -> None:
        """A commit since the look is not written over, and nothing else is moved."""
        (a,) = self.joined("a")
        seen = self.entry().offsets
        a.reader.positions = {tp(0): 100}
        self.get(a.membership.commit())
        self.refused(move_positions(self.outsider, "g", seen, {tp(0): 7, tp(1): 7}), GroupChanged)
        self.assertEqual((self.committed(0), self.committed(1)), (b"100", b""))

    def test_a_new_group_begins_where_it_is_told(self) -> None:
        """A second move without a look is refused."""
        self.do(move_positions(self.outsider, "g", {}, {tp(3): 33}))
        (a,) = self.joined("a")
        self.assertEqual((a.reader.began[tp(3)], a.reader.began[tp(2)]), (33, None))
        self.refused(move_positions(self.outsider, "g", {}, {tp(3): 34}), GroupChanged)


class DeleteGroupTests(AdministrationTestCase):
    """delete_group()."""

    def test_a_group_at_rest_is_deleted_whole(self) -> None:
        """A live group stays as it is."""
        (a,) = self.joined("a")
        self.refused(delete_group(self.outsider, "g"), GroupLive)
        self.check()
        self.get(a.membership.leave())
        self.assertEqual(self.do(delete_group(self.outsider, "g")), 8)
        self.assertIsNone(self.get(self.outsider.exists(paths.group("g"))))
        self.refused(delete_group(self.outsider, "g"), UnknownGroup)

    def test_a_consumer_that_joins_during_the_delete_has_a_group(self) -> None:
        """It either stops the delete, or makes a new group."""
        (a,) = self.joined("a")
        self.get(a.membership.leave())
        deleting = Deferred.fromCoroutine(delete_group(self.outsider, "g")).addErrback(lambda f: f.trap(GroupLive))
        (b,) = self.joined("b")
        self.assertTrue(deleting.called)
        self.assertEqual(b.numbers, list(range(8)))
        self.check()
