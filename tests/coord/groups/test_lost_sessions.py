"""Tests of work that is under way, or waits for its turn, when the session is lost or another tenure begins."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail

from logd.coord import paths
from logd.coord.errors import ConnectionLoss, CoordinationError, SessionExpired
from logd.coord.groups.records import Phase
from logd.coord.records import Create, Delete, SessionState
from logd.coord.registries.consumers import Subscription
from tests.coord.groups.rig import GroupTestCase, Member, tp


class LostSessionTests(GroupTestCase):
    """Partitions that were owned in one session are not committed in the next."""

    def test_waiting_commits_are_not_sent_in_the_next_session(self) -> None:
        """One of the two gets its turn by the failure of the other."""
        (member,) = self.joined("a")
        member.reader.positions = {tp(1): 11}
        member.cut()
        commits: list[Deferred[None]] = [member.membership.commit(), member.membership.commit()]
        self.host.expire(member.coordination.session_id)
        member.mend()
        self.settle()
        for commit in commits:
            self.failureResultOf(commit, CoordinationError)
        self.assertEqual(self.committed(1), b"")

    def test_commits_fail_from_the_end_of_a_session_until_the_next_share_is_delivered(self) -> None:
        """One that succeeded would say that messages are committed which come again."""
        (member,) = self.joined("a", commit_interval=0.0)
        coordination, membership = member.coordination, member.membership
        session = coordination.session_id
        member.reader.positions = {tp(1): 11}
        commits: list[Deferred[None]] = []

        def note(state: SessionState) -> None:
            if state is SessionState.LOST:
                commits.append(membership.commit())

        coordination.subscribe(note)
        coordination.link.delay = lambda: 0.2
        commits += [membership.commit(), membership.commit()]  # the second waits for the first
        self.run_for(0.1)
        self.host.expire(session)
        while coordination.session_id in (0, session) or member.numbers:
            self.clock.advance(0.01)
        commits.append(membership.commit())
        self.settle(6.0)
        self.assertEqual(len(commits), 4)
        for commit in commits:
            self.failureResultOf(commit, CoordinationError)
        self.assertEqual(self.committed(1), b"")
        member.reader.positions = {tp(1): 12}
        self.get(membership.commit())
        self.assertEqual(self.committed(1), b"12")

    def test_a_commit_that_gets_its_turn_in_the_next_session_fails(self) -> None:
        """Its positions are those of a share that is over."""
        (member,) = self.joined("a", commit_interval=0.0)
        member.reader.positions = {tp(1): 11}
        lock = member.membership._share._claims._lock
        self.get(lock.acquire())
        commit = member.membership.commit()
        self.host.expire(member.coordination.session_id)
        self.run_for(1.0)
        lock.release()
        self.settle()
        self.failureResultOf(commit, SessionExpired)
        self.assertEqual(self.committed(1), b"")

    def test_a_commit_under_way_fails_with_the_trees_error(self) -> None:
        """A KeyError would hide from the caller that its session is over."""
        (member,) = self.joined("a")
        member.reader.positions = {tp(number): 11 for number in range(8)}
        member.coordination.link.delay = lambda: 0.2
        commit = member.membership.commit()
        outcome: list[object] = []
        commit.addBoth(outcome.append)
        self.run_for(0.1)
        self.host.expire(member.coordination.session_id)
        self.settle(6.0)
        self.assertNotIsInstance(getattr(outcome[0], "value", None), KeyError)

    def test_a_member_without_session_is_not_steady(self) -> None:
        """A member whose share was nothing is not steady either."""
        members = self.joined(*"abcdefghi")
        for member in (members[0], members[8]):
            said: dict[SessionState, Phase] = {}

            def note(state: SessionState, of: Member = member, said: dict[SessionState, Phase] = said) -> None:
                said[state] = of.membership.phase

            member.coordination.subscribe(note)
            self.host.expire(member.coordination.session_id)
            self.settle()
            self.assertIs(said[SessionState.LOST], Phase.WAITING)
            self.assertIs(member.membership.phase, Phase.STEADY)

    def test_claims_of_an_overtaken_rebalance_block_no_member(self) -> None:
        """It began in the old session and made its claims in the next one."""
        (member,) = self.joined("a")
        finishing: Deferred[None] = Deferred()
        member.reader.finishing = finishing
        member.membership.subscribe(Subscription({"t": 2}))
        self.run_for(0.2)
        self.host.expire(member.coordination.session_id)
        self.run_for(0.5)
        member.reader.finishing = None
        finishing.callback(None)
        self.settle()
        self.assertEqual(member.numbers, list(range(8)))

    def test_a_new_subscription_in_the_next_session_is_seen(self) -> None:
        """Other members, which never saw the consumer gone, do not take it for the former one."""
        a = self.join("a")
        b = self.join("b", settle=1.0)
        self.settle(5.0)
        self.assertEqual(len(b.numbers), 4)
        a.membership.subscribe(Subscription({"u": 1}))
        self.host.expire(a.coordination.session_id)
        self.settle(5.0)
        self.assertEqual(b.numbers, list(range(8)))

    def test_a_commit_does_not_outlive_its_tenure(self) -> None:
        """Positions of an earlier tenure are not committed over what others have committed since."""
        a, b = self.joined("a", "b", commit_interval=0.0)
        a.reader.positions = {tp(1): 11}
        multi = a.coordination.multi
        commits: list[Deferred[None]] = []

        def passing(operations, timeout=None):  # type: ignore[no-untyped-def]
            answer = multi(operations, timeout)
            if any(isinstance(each, Delete) for each in operations):
                self.outsider.set(paths.group_offset("g", "t", 1), b"500")  # another's tenure
            if any(isinstance(each, Create) for each in operations):
                commits.append(a.membership.commit())
            return answer

        self.patch(a.coordination, "multi", passing)
        self.get(b.membership.leave())
        self.settle()
        self.assertEqual(len(commits), 1)
        self.assertEqual(a.reader.began[tp(1)], 500)
        self.assertEqual(self.committed(1), b"500")


class LateHandoverTests(GroupTestCase):
    """Members that could not hand over within ``leave``, in a session that others use and that lasts."""

    def test_the_handover_goes_on_when_the_tree_is_back(self) -> None:
        """Else the partitions would stay with a member that nobody is, for as long as the process runs."""
        a, b = self.joined("a", "b", leave=1.0, commit_interval=0.0)
        a.reader.positions = {tp(1): 11}
        session = a.coordination.session_id
        a.cut()
        leaving = a.membership.leave()
        self.run_for(1.5)
        self.successResultOf(leaving)
        a.mend()
        self.settle()
        self.assertEqual(a.coordination.session_id, session)
        self.assertEqual((a.numbers, b.numbers), ([], list(range(8))))
        self.assertEqual(self.committed(1), b"11")

    def test_the_handover_goes_on_after_calls_without_an_answer(self) -> None:
        """The tree was away for longer than a call waits, and knows the session when it is back."""
        a, b = self.joined("a", "b", leave=1.0)
        session = a.coordination.session_id
        for member in (a, b):
            member.coordination.link.reachable = False
        self.host.stop()
        leaving = a.membership.leave()
        self.run_for(30.0)
        self.successResultOf(leaving)
        self.host.start()
        for member in (a, b):
            member.mend()
        self.settle(6.0)
        self.assertEqual(a.coordination.session_id, session)
        self.assertEqual(b.numbers, list(range(8)))

    def test_the_handover_goes_on_after_a_slow_application(self) -> None:
        """It has done with its messages once ``leave`` is over."""
        a, b = self.joined("a", "b", leave=1.0)
        finishing = a.reader.finishing = Deferred()
        leaving = a.membership.leave()
        self.run_for(1.5)
        self.successResultOf(leaving)
        finishing.callback(None)
        self.settle()
        self.assertEqual(b.numbers, list(range(8)))

    def test_a_call_that_is_lost_at_once_is_made_again_later(self) -> None:
        """It may not have been sent, since too many wait; a loop would never end, and nothing else would run."""
        a, b = self.joined("a", "b", leave=1.0)
        multi, lost = a.coordination.multi, list[Any]()

        def losing(operations: Any, timeout: float | None = None) -> Deferred[Any]:
            if len(lost) < 3:
                lost.append(operations)
                return fail(ConnectionLoss(path="/"))
            return multi(operations, timeout)

        self.patch(a.coordination, "multi", losing)
        leaving = a.membership.leave()
        self.assertEqual(len(lost), 1)
        self.settle()
        self.successResultOf(leaving)
        self.assertEqual(b.numbers, list(range(8)))

    def test_the_handover_ends_with_the_session(self) -> None:
        """Nothing goes on in the next session, whose claims are those of others."""
        a, b = self.joined("a", "b", leave=1.0)
        a.cut()
        leaving = a.membership.leave()
        self.run_for(1.5)
        self.successResultOf(leaving)
        self.host.expire(a.coordination.session_id)
        a.mend()
        self.settle()
        self.assertEqual(b.numbers, list(range(8)))
        self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), [b.membership.consumer])
