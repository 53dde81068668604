"""Tests of a group's members when something breaks: sessions, connections, claims, watches; and of the fence."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail

from logd.coord import paths
from logd.coord.errors import BadVersion, ConnectionLoss, NoNode
from logd.coord.groups.records import Phase
from logd.coord.records import ANY_VERSION, SessionState
from logd.coord.registries.consumers import Subscription
from logd.errors import PartitionLost
from tests.coord.groups.rig import SESSION_TIMEOUT, GroupTestCase, Member, tp


class SessionTests(GroupTestCase):
    """Connections that are cut, and sessions that end."""

    def test_a_short_cut_stops_no_member(self) -> None:
        """The session goes on, and so does the delivery."""
        a, b = self.joined("a", "b")
        before = list(a.reader.notes)
        a.cut()
        self.run_for(1.0)
        a.mend()
        self.settle()
        self.assertEqual(a.reader.notes, before)
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_a_member_that_is_cut_off_stops_by_itself(self) -> None:
        """It stops before others can have its partitions, and joins again when it is back."""
        a, b = self.joined("a", "b")
        a.cut()
        stopped = taken = None
        for step in range(1200):
            self.clock.advance(0.01)
            if stopped is None and not a.partitions:
                stopped = step / 100
            if taken is None and len(b.partitions) == 8:
                taken = step / 100
        assert stopped is not None and taken is not None
        self.assertLess(stopped, taken - 1.0)
        self.assertLessEqual(stopped, SESSION_TIMEOUT * 2 / 3 + 0.1)
        self.assertEqual(a.membership.counts.silences, 1)
        a.mend()
        self.settle()
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_a_member_back_in_time_goes_on_with_its_claims(self) -> None:
        """It had stopped by itself, and its session was not over."""
        a, b = self.joined("a", "b")
        a.reader.positions = {tp(1): 11}
        a.cut()
        self.run_for(SESSION_TIMEOUT * 2 / 3 + 0.3)
        self.assertEqual(a.partitions, [])
        session = a.coordination.session_id
        a.mend()
        self.settle()
        self.assertEqual(a.coordination.session_id, session)
        self.assertEqual(a.reader.began[tp(1)], 11)
        self.assertEqual(b.numbers, [4, 5, 6, 7])

    def test_a_member_with_a_lost_session_starts_anew(self) -> None:
        """It stops at once, commits nothing, and comes back as a new member."""
        a, b = self.joined("a", "b", commit_interval=0.0)
        a.reader.positions = {tp(1): 11}
        self.host.expire(a.coordination.session_id)
        self.run_for(0.13)
        self.assertIs(a.coordination.state, SessionState.CONNECTED)
        self.assertEqual(a.partitions, [])
        self.settle()
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertIsNone(a.reader.began[tp(1)])

    def test_a_process_that_stood_still_delivers_nothing_more(self) -> None:
        """It has to look at the tree first, since others may own its partitions by now."""
        (a,) = self.joined("a")
        self.assertTrue(a.membership.may_deliver())
        a.cut()
        self.clock.rightNow += SESSION_TIMEOUT  # nothing runs meanwhile
        self.assertFalse(a.membership.may_deliver())
        self.assertEqual(a.partitions, [])
        self.assertIs(a.membership.phase, Phase.WAITING)

    def test_a_group_survives_a_long_absence_of_the_tree(self) -> None:
        """Nothing is delivered meanwhile; afterwards all is as before."""
        a, b = self.joined("a", "b")
        for member in (a, b):
            member.coordination.link.reachable = False
        self.host.stop()
        self.run_for(30.0)
        self.assertEqual((a.partitions, b.partitions), ([], []))
        self.host.start()
        for member in (a, b):
            member.mend()
        self.run_for(3.0)
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_a_member_that_leaves_in_a_short_cut_hands_over(self) -> None:
        """It waits for the connection, since its session may outlast the consumer."""
        for under_way in (False, True):
            (a,) = self.joined("a" if under_way else "b", commit_interval=0.0)
            a.reader.positions = {tp(1): 11 + under_way}
            leaving = a.membership.leave() if under_way else None
            a.cut()
            leaving = leaving or a.membership.leave()
            self.run_for(0.5)
            self.assertNoResult(leaving)
            a.mend()
            self.get(leaving)
            self.assertEqual(self.committed(1), b"%d" % (11 + under_way))
            self.assertEqual(self.owners(), {})
            self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), [])

    def test_leaving_while_cut_off_still_ends(self) -> None:
        """A program that shuts down must not hang, and no timer is left."""
        (a,) = self.joined("a", leave=2.0)
        a.cut()
        self.run_for(0.1)
        self.get(a.membership.leave())
        self.get(a.coordination.close())
        self.get(self.outsider.close())
        self.host.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class ConflictTests(GroupTestCase):
    """Claims that meet the claims of others."""

    def occupy(self, partition: int) -> str:
        """Own a partition as another consumer; return the owner's path."""
        path = paths.group_owner("g", "t", partition)
        self.get(self.outsider.create(path, b"z-0", ephemeral=True, makepath=True))
        return path

    def test_a_claim_waits_for_the_former_owner(self) -> None:
        """No partition is claimed while one is another's; once it is free all are, at once."""
        path = self.occupy(6)
        a = self.join("a")
        self.run_for(5.0)
        self.assertEqual(a.partitions, [])
        self.assertEqual(list(self.owners()), [tp(6)])
        self.assertIs(a.membership.phase, Phase.WAITING)
        self.assertLess(a.membership.counts.conflicts, 12)
        self.get(self.outsider.delete(path))
        self.run_for(0.2)
        self.assertEqual(a.numbers, list(range(8)))

    def test_a_conflict_undoes_claims_of_earlier_transactions(self) -> None:
        """A share of 125 partitions is claimed in several."""
        self.topic("big", 250)
        a, b = self.joined("a", "b")
        self.get(self.outsider.create(paths.group_owner("g", "big", 240), b"z-0", ephemeral=True, makepath=True))
        for member in (a, b):
            member.membership.subscribe(Subscription({"big": 1}))
        self.run_for(3.0)
        self.assertEqual(len(a.partitions), 125)
        self.assertEqual(b.partitions, [])
        self.assertEqual(len(self.owners("g", "big")), 126)

    def test_a_claim_without_an_answer_is_undone(self) -> None:
        """The next claim would otherwise wait for an owner that does not exist."""
        a = Member(self, "a")
        multi = a.coordination.multi
        lost: list[int] = []

        def losing(operations, timeout=None):  # type: ignore[no-untyped-def]
            answer = multi(operations, timeout)
            if len(lost) < 2:
                lost.append(1)
                answer.addBoth(lambda _: None)
                failed: Deferred[object] = Deferred()
                self.clock.callLater(0.01, failed.errback, ConnectionLoss())
                return failed
            return answer

        self.patch(a.coordination, "multi", losing)
        a.coordination.connect()
        a.membership.subscribe(Subscription({"t": 1}))
        self.settle()
        self.assertEqual(a.numbers, list(range(8)))
        self.assertEqual(a.membership.counts.errors, 2)

    def test_a_claim_without_an_answer_is_undone_at_another_server_of_an_ensemble(self) -> None:
        """That one may not have the claim yet when asked: until the session ends it would block its member."""
        a = Member(self, "a")
        coordination = a.coordination
        multi, get, sync = coordination.multi, coordination.get, coordination.sync
        claims: list[int] = []
        behind: list[int] = []

        def losing(operations, timeout=None):  # type: ignore[no-untyped-def]
            answer = multi(operations, timeout)
            claims.append(1)
            if len(claims) > 1:
                return answer.addBoth(caught_up)
            behind.append(1)
            return answer.addCallback(lambda _: _failing())

        def caught_up(result):  # type: ignore[no-untyped-def]
            behind.clear()
            return result

        def lagging(path, timeout=None):  # type: ignore[no-untyped-def]
            return fail(NoNode(path=path)) if behind and "/owners/" in path else get(path, timeout)

        self.patch(coordination, "multi", losing)
        self.patch(coordination, "get", lagging)
        self.patch(coordination, "sync", lambda *more: sync(*more).addCallback(caught_up))
        coordination.connect()
        a.membership.subscribe(Subscription({"t": 1}))
        self.settle()
        self.assertEqual(a.numbers, list(range(8)))

    def test_a_claim_sees_a_late_commit(self) -> None:
        """The former owner commits between reading and claiming, and the claim is tried again."""
        a, b = self.joined("a", "b")
        read = b.coordination.multi
        raced: list[int] = []

        def racing(operations, timeout=None):  # type: ignore[no-untyped-def]
            if not raced and len(operations) == 17:  # claims, fences, and the topic
                raced.append(1)
                self.outsider.set(paths.group_offset("g", "t", 2), b"222")
            return read(operations, timeout)

        self.patch(b.coordination, "multi", racing)
        self.get(a.membership.leave())
        self.settle()
        self.assertEqual(raced, [1])
        self.assertEqual(b.reader.began[tp(2)], 222)


class FenceTests(GroupTestCase):
    """No commit by a former owner succeeds, and no release of another's claim."""

    def test_a_former_owner_releases_no_other_claim(self) -> None:
        """Its own was removed, and another made and fenced since."""
        (a,) = self.joined("a", commit_interval=0.0)
        owner, offset = paths.group_owner("g", "t", 3), paths.group_offset("g", "t", 3)
        self.get(self.outsider.delete(owner))
        self.store(offset, b"")
        self.get(self.outsider.create(owner, b"z-0", ephemeral=True))
        self.get(a.membership.leave())
        self.assertEqual(self.owners(), {tp(3): "z-0"})

    def test_a_former_owner_cannot_commit(self) -> None:
        """It wakes up late and was told of nothing, so the version alone stops its commit."""
        a, b = self.joined("a", "b", commit_interval=0.0)
        offsets = a.membership._share._claims
        held = dict(offsets._held)
        self.host.expire(a.coordination.session_id)
        a.coordination.link.reachable = False
        a.coordination.link.cut()
        self.run_for(0.5)
        self.assertEqual(b.numbers, list(range(8)))
        for number in range(4):
            path = paths.group_offset("g", "t", number)
            setting = self.outsider.set(path, b"666", held[tp(number)].version)  # as it would arrive late
            self.clock.advance(0)
            self.failureResultOf(setting, BadVersion)
            self.assertEqual(self.committed(number), b"")

    def test_a_fenced_commit_stops_its_partition(self) -> None:
        """The error names the partition; the commits of the others are stored."""
        (a,) = self.joined("a", commit_interval=0.0)
        self.store(paths.group_offset("g", "t", 3), b"50")
        a.reader.positions = {tp(number): 9 for number in range(8)}
        failing = a.membership.commit()
        self.run_for(0.01)
        failure = self.failureResultOf(failing, PartitionLost)
        self.assertIn("partition 3", str(failure.value))
        self.assertNotIn("partition 2", str(failure.value))
        self.assertIn("lost", a.reader.notes)
        self.assertEqual((self.committed(3), self.committed(2)), (b"50", b"9"))
        self.settle()
        self.assertEqual(a.reader.began[tp(3)], 50)
        self.assertEqual(a.membership.counts.fenced, 1)

    def test_positions_are_committed_from_time_to_time(self) -> None:
        """A position that has not moved is not written."""
        (a,) = self.joined("a", commit_interval=1.0)
        a.reader.positions = {tp(0): 5, tp(1): 6}
        self.run_for(1.2)
        self.assertEqual((self.committed(0), self.committed(1)), (b"5", b"6"))
        version = self.get(self.outsider.get(paths.group_offset("g", "t", 0)))[1].version
        a.reader.positions = {tp(0): 5, tp(1): 7}
        self.run_for(3.0)
        self.assertEqual(self.get(self.outsider.get(paths.group_offset("g", "t", 0)))[1].version, version)
        self.assertEqual(self.committed(1), b"7")

    def test_a_commit_without_an_answer_is_known_again(self) -> None:
        """The next commit succeeds, whether the first one was done or not."""
        for done in (True, False):
            with self.subTest(done=done):
                (a,) = self.joined(f"a{done}", commit_interval=0.0)
                a.reader.positions = {tp(0): 5}
                multi = a.coordination.multi

                def losing(operations, timeout=None, multi=multi, done=done):  # type: ignore[no-untyped-def]
                    if done:
                        multi(operations, timeout)
                    failed: Deferred[object] = Deferred()
                    self.clock.callLater(0.01, failed.errback, ConnectionLoss())
                    return failed

                self.patch(a.coordination, "multi", losing)
                failing = a.membership.commit()
                self.run_for(0.1)
                self.failureResultOf(failing, ConnectionLoss)
                self.patch(a.coordination, "multi", multi)
                a.reader.positions = {tp(0): 6}
                self.get(a.membership.commit())
                self.assertEqual(self.committed(0), b"6")
                self.get(a.membership.leave())

    def test_the_fence_holds_after_a_lost_answer(self) -> None:
        """The commit was not done, and another has claimed the partition in between."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(0): 5}
        self.patch(a.coordination, "multi", lambda operations, timeout=None: _failing())
        self.failureResultOf(a.membership.commit(), ConnectionLoss)
        self.store(paths.group_offset("g", "t", 0), b"")  # as a claim rewrites it
        a.reader.positions = {tp(0): 6}
        failing = a.membership.commit()
        self.run_for(0.1)
        self.failureResultOf(failing, PartitionLost)
        self.assertEqual(self.committed(0), b"")

    def test_a_commit_makes_no_deleted_offset_again(self) -> None:
        """An offset that went with its topic stays gone."""
        (a,) = self.joined("a", commit_interval=0.0)
        self.get(self.outsider.delete(paths.group_offset("g", "t", 1), ANY_VERSION))
        a.reader.positions = {tp(1): 5}
        failing = a.membership.commit()
        self.run_for(0.02)
        self.failureResultOf(failing, PartitionLost)


class WatchTests(GroupTestCase):
    """News of the tree that comes late, or often."""

    def test_twenty_newcomers_are_one_rebalance(self) -> None:
        """They come within the delay, and those who were there stop once."""
        (a,) = self.joined("a", settle=1.0)
        before = a.membership.counts.rebalances
        for number in range(20):
            self.join(f"b{number:02}", settle=0.0)
            self.run_for(0.02)
        self.settle(5.0)
        self.assertEqual(a.membership.counts.rebalances - before, 1)

    def test_a_member_that_hears_late_keeps_its_partitions(self) -> None:
        """The other one waits meanwhile."""
        (a,) = self.joined("a")
        a.coordination.link.delay = lambda: 0.8
        b = self.join("b")
        for _ in range(1500):
            self.clock.advance(0.01)
            self.assertFalse(set(a.partitions) & set(b.partitions))
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_a_rebalance_costs_no_more_in_a_larger_group(self) -> None:
        """The cost is counted in operations on the tree, in a group of thirty."""
        members = [self.join(f"m{number:02}") for number in range(30)]
        self.topic("wide", 60)
        for member in members:
            member.membership.subscribe(Subscription({"wide": 1}))
        self.run_for(10.0)
        asked: list[str] = []
        counted = members[0].coordination
        for name in ("multi", "get", "get_children_and_watch", "get_and_watch", "exists_and_watch", "create"):
            original = getattr(counted, name)

            def counting(*arguments, original=original, name=name, **more):  # type: ignore[no-untyped-def]
                asked.append(name)
                return original(*arguments, **more)

            self.patch(counted, name, counting)
        rebalances = members[0].membership.counts.rebalances
        self.join("a00", members[0].membership._share.subscription)
        self.run_for(3.0)
        rebalances = members[0].membership.counts.rebalances - rebalances
        self.assertEqual(rebalances, 1)
        # the list of ids, the new one's entry, the offsets of two partitions, two transactions (nothing to commit)
        self.assertLessEqual(len(asked), 1 + 1 + 2 + 2, asked)

    def test_a_closed_session_stops_its_member(self) -> None:
        """The program has closed the client without leaving the group."""
        (a,) = self.joined("a")
        self.get(a.coordination.close())
        self.assertEqual(a.partitions, [])
        self.assertIs(a.coordination.state, SessionState.CLOSED)


def _failing() -> Deferred[object]:
    failed: Deferred[object] = Deferred()
    failed.errback(ConnectionLoss())
    return failed
