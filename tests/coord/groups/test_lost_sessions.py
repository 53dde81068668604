"""Tests of commits that are under way, or wait for their turn, when the session is lost."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from tests.coord.groups.members import GroupCase, tp


class LostSessionTests(GroupCase):
    """What was owned in one session is not committed in the next."""

    def test_commits_that_wait(self) -> None:
        """Of two commits neither is sent in the next session, though one gets its turn by the failure of the other."""
        (member,) = self.joined("a")
        member.reader.positions = {tp(1): 11}
        member.cut()
        commits: list[Deferred[None]] = [member.membership.commit(), member.membership.commit()]
        for commit in commits:
            commit.addErrback(lambda failure: None)
        self.host.expire(member.coordination.session_id)
        member.mend()
        self.settle()
        self.assertEqual(self.committed(1), b"")

    def test_commit_under_way(self) -> None:
        """A commit that was sent when the session ended fails with an error of the tree's, not with a bug."""
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
