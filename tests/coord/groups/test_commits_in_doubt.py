"""Tests of commits without an answer, which are looked up before the next commit."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail

from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from tests.coord.groups.rig import GroupTestCase, tp


class CommitsInDoubtTests(GroupTestCase):
    """A client of an ensemble whose server is lost after it has done a commit."""

    def test_a_server_that_is_behind_is_asked_to_catch_up(self) -> None:
        """Its version of the position would look as if the commit had not been done, and the next would be refused."""
        (a,) = self.joined("a", commit_interval=0.0)
        coordination = a.coordination
        multi, get, sync = coordination.multi, coordination.get, coordination.sync
        path = paths.group_offset("g", "t", 0)
        former = self.get(get(path))
        behind = [former]

        def losing(operations: Any, timeout: float | None = None) -> Deferred[Any]:
            return multi(operations, timeout).addCallback(lambda _: fail(ConnectionLoss(path="/")))

        def lagging(asked: str, timeout: float | None = None) -> Deferred[Any]:
            answer = get(asked, timeout)
            return answer.addCallback(lambda found: behind[0] if behind and asked == path else found)

        def caught_up(result: Any) -> Any:
            behind.clear()
            return result

        a.reader.positions = {tp(0): 5}
        self.patch(coordination, "multi", losing)
        failing = a.membership.commit()
        self.run_for(0.1)
        self.failureResultOf(failing, ConnectionLoss)
        self.patch(coordination, "multi", multi)
        self.patch(coordination, "get", lagging)
        self.patch(coordination, "sync", lambda *more: sync(*more).addCallback(caught_up))
        a.reader.positions = {tp(0): 6}
        self.get(a.membership.commit())
        self.assertEqual((self.committed(0), a.membership.counts.fenced), (b"6", 0))
