"""Brokers that lose the tree, or end: no commit is lost when another one coordinates a group."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.python.monkey import MonkeyPatcher

from logd.broker.kafka.groups.members import JoinAnswer
from logd.coord.errors import ConnectionLoss
from logd.coord.kafka_groups.commit_operations import Committed
from logd.coord.records import Check, Create, Delete, GetChildren, Multi, Request, SetData
from tests.broker.kafka.groups.coordinators import T0, CoordinatorsTestCase, SingleMember, never_lost
from tests.broker.kafka.groups.states import ASKED


class LostCoordinatorTests(CoordinatorsTestCase):
    """Brokers that lose the tree, or end."""

    def test_a_broker_stops(self) -> None:
        """Requests that wait are told so, and the next broker can claim the group at once."""
        joining = Deferred.fromCoroutine(self.brokers[0].join("g", ASKED, never_lost))
        self.run_for(0.2)
        self.assertNoResult(joining)
        self.brokers[0].stop()
        self.assertEqual(self.get(joining).error, 16)
        self.run_for(0.1)
        self.join(1)
        self.assertEqual(self.refusal(self.brokers[0].find("g")), 15)

    def test_a_session_ends(self) -> None:
        """All groups are given up; the members join anew, there or elsewhere."""
        member = self.join(0)
        self.cut(0)
        self.run_for(4.5)
        self.assertEqual(self.refusal(member.broker.member_of("g")), 15)  # others may coordinate soon
        self.run_for(3.0)
        self.assertIsNone(self.get(self.brokers[1].find("g")))
        self.join(1)
        self.mend(0)
        self.run_for(1.0)
        self.assertEqual(self.refusal(member.broker.member_of("g")), 16)
        self.assertEqual(len(member.broker.groups), 0)

    def test_the_tree_is_away_for_a_moment(self) -> None:
        """The session lives on, and so does the group."""
        member = self.join(0)
        self.cut(0)
        self.run_for(2.0)
        self.mend(0)
        self.run_for(0.5)
        group = self.get(member.broker.member_of("g"))
        self.assertEqual(group.heartbeat(*member.me), 0)
        self.assertEqual(self.get(self.commit(member, 5)), 0)

    def test_a_commit_of_a_former_coordinator(self) -> None:
        """It fails, however late the broker learns that another one has claimed the group."""
        member = self.join(0)
        self.assertEqual(self.get(self.commit(member, 5)), 0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))  # as when the session had ended
        late = self.join(1)
        self.assertEqual(self.get(self.commit(late, 50)), 0)
        self.assertEqual(self.get(self.commit(member, 6)), 16)
        self.assertEqual(self.stored(), b"50")
        self.assertEqual(len(member.broker.groups), 0)
        self.assertEqual(self.get(self.commit(late, 51)), 0)

    def test_a_claim_that_is_gone(self) -> None:
        """Also before another broker has claimed the group: native consumers may have joined."""
        member = self.join(0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))
        self.assertEqual(self.get(self.commit(member, 6)), 16)
        self.assertIsNone(self.stored())

    def test_a_commit_behind_the_next_generation(self) -> None:
        """It is refused, since members of that generation may have read the position before."""
        first = self.join(0)
        group = self.get(first.broker.member_of("g"))
        self.get(self.commit(first, 4))
        joining = [Deferred.fromCoroutine(first.broker.join("g", ASKED, never_lost))]
        self.trees[0].link.delay = lambda: 0.5
        joining.append(
            Deferred.fromCoroutine(first.broker.join("g", evolve(ASKED, member_id=first.answer.member_id), never_lost))
        )
        self.run_for(0.2)
        self.assertEqual(group.generation, 1)
        committing = self.commit(first, 5)
        self.run_for(4.0)
        self.assertEqual([self.successResultOf(each).generation for each in joining], [2, 2])
        self.assertEqual(self.successResultOf(committing), 22)
        self.assertEqual(self.stored(), b"4")

    def test_a_lost_answer_to_the_writing_of_a_generation(self) -> None:
        """The number is in the tree, and the generation begins."""
        execute, link = self.host.execute, self.trees[0].link

        def cut(attachment: Any, request: Request, answered: Any) -> None:
            execute(attachment, request, answered)
            if isinstance(request, Multi) and isinstance(request.operations[0], Check):
                self.host.execute = execute  # type: ignore[method-assign]
                link.cut()

        self.host.execute = cut  # type: ignore[method-assign]
        self.join(0)
        self.assertEqual(self.get(self.outsider.get("/consumers/g/generation"))[0], b"1")

    def test_a_tree_that_refuses_calls_at_once(self) -> None:
        """So it is while too many wait already: the broker tries again in later turns of the reactor."""
        tree: Any = self.trees[0]
        asked = []

        def refuse(*_: Any) -> Deferred[Any]:
            asked.append(self.clock.seconds())
            return fail(ConnectionLoss() if len(asked) < 1000 else AssertionError("the reactor stands still"))

        member = self.join(0)
        joining = Deferred.fromCoroutine(member.broker.join("g", ASKED, never_lost))
        self.patch(tree, "multi", refuse)
        again = evolve(ASKED, member_id=member.answer.member_id)
        rejoining = Deferred.fromCoroutine(member.broker.join("g", again, never_lost))
        self.run_for(1.0)
        self.assertIn(len(asked), range(5, 21))
        del tree.multi
        self.assertEqual({self.get(joining).generation, self.get(rejoining).generation}, {2})

    def test_a_claim_that_cannot_be_given_back(self) -> None:
        """It is given back when the tree answers again: native consumers need not wait for the session's end."""
        member = self.join(0)
        group = self.get(member.broker.member_of("g"))
        self.cut(0)
        group.leave(member.answer.member_id, None)
        self.run_for(3.0)
        self.mend(0)
        self.run_for(0.5)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))

    def refuse_to_release(self) -> MonkeyPatcher:
        """Have the tree refuse what is asked about claims, as it does at once while too many calls wait."""
        tree: Any = self.trees[0]
        exists = tree.exists

        def refuse(path: str, *more: Any) -> Deferred[Any]:
            return fail(ConnectionLoss()) if path.endswith("/coordinator") else exists(path, *more)

        refusing: MonkeyPatcher = self.patch(tree, "exists", refuse)
        return refusing

    def test_a_claim_that_a_busy_tree_does_not_take_back(self) -> None:
        """It is given back when calls are answered again, though the session has not been interrupted."""
        member = self.join(0)
        group = self.get(member.broker.member_of("g"))
        refusing = self.refuse_to_release()
        group.leave(member.answer.member_id, None)
        self.run_for(3.0)
        self.assertIsNotNone(self.get(self.outsider.exists("/consumers/g/coordinator")))
        refusing.restore()
        self.run_for(1.5)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))

    def test_a_claim_of_an_earlier_process_that_a_busy_tree_does_not_take_back(self) -> None:
        """It is given back likewise, when a client that is no member has found it."""
        path = "/consumers/g/coordinator"
        self.get(self.outsider.create(path, b"0", ephemeral=True, makepath=True))
        refusing = self.refuse_to_release()
        self.assertEqual(self.refusal(self.brokers[0].commit("g", {T0: Committed(5)}, "", None, -1)), 15)
        self.run_for(3.0)
        stat = self.get(self.outsider.exists(path))
        self.assertEqual(stat.ephemeral_owner, self.trees[0].session_id)
        refusing.restore()
        self.run_for(1.5)
        self.assertIsNone(self.get(self.outsider.exists(path)))

    def test_a_claim_that_is_made_in_vain(self) -> None:
        """It is given back, though its group has no member: the look for native consumers behind it failed."""
        execute, link = self.host.execute, self.trees[0].link
        claimed = []

        def cut(attachment: Any, request: Request, answered: Any) -> None:
            if isinstance(request, Multi) and isinstance(request.operations[0], Create):
                claimed.append(request)
            elif claimed and isinstance(request, GetChildren):
                self.host.execute = execute  # type: ignore[method-assign]
                link.cut()
                return
            execute(attachment, request, answered)

        self.host.execute = cut  # type: ignore[method-assign]
        self.assertEqual(self.refusal(self.brokers[0].join("g", ASKED, never_lost)), 15)
        self.run_for(2.0)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))

    def test_a_generation_of_a_former_coordinator(self) -> None:
        """It does not begin: its members are told to look for the coordinator."""
        member = self.join(0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))
        self.join(1)
        asked = evolve(ASKED, member_id=member.answer.member_id)
        self.assertEqual(self.get(member.broker.join("g", asked, never_lost)).error, 16)
        self.assertEqual(self.get(self.outsider.get("/consumers/g/generation"))[0], b"2")

    def test_lost_answers(self) -> None:
        """Whatever answer of the tree is lost, a group goes on and its acknowledged commits are there."""
        for lost in range(40):
            self.setUp()
            try:
                self.lose_answer(lost)
            except BaseException as error:
                error.add_note(f"the connection is cut behind write {lost}")
                raise

    def lose_answer(self, number: int) -> None:
        """Join, commit and leave, with the connection cut behind one request to the tree."""
        link = self.trees[0].link
        sent = [0]
        execute = self.host.execute

        def count(attachment: Any, request: Request, answered: Any) -> None:
            execute(attachment, request, answered)
            if isinstance(request, Create | Delete | SetData | Check | Multi):
                sent[0] += 1
                if sent[0] == number:
                    self.clock.callLater(0, link.cut)

        self.host.execute = count  # type: ignore[method-assign]
        member = SingleMember(self.brokers[0])
        position = 0
        for _ in range(8):
            joining = Deferred.fromCoroutine(member.broker.join("g", ASKED, never_lost))
            outcome: list[Any] = []
            joining.addBoth(outcome.append)
            self.run_for(3.0)
            self.assertTrue(outcome, "a request to join is not answered")
            if not isinstance(outcome[0], JoinAnswer) or outcome[0].error:
                continue
            member.answer = outcome[0]
            self.get(member.broker.sync("g", *member.me, {}, never_lost))
            acknowledged = []
            for _ in range(3):
                position += 1
                committing = self.commit(member, position, "text" if position % 2 else "")
                errors: list[Any] = []
                committing.addBoth(errors.append)
                self.run_for(3.0)
                self.assertTrue(errors, "a commit is not answered")
                if errors == [0]:
                    acknowledged.append(position)
            if acknowledged:
                self.assertIn(int(self.stored() or b"-1"), range(acknowledged[-1], position + 1))
            self.get(member.broker.member_of("g")).leave(member.answer.member_id, None)
            self.get(member.broker.released("g"))
        self.run_for(3.0)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))
        self.assertGreater(sent[0], 40)
