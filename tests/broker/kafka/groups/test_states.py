"""The state of a group of Kafka clients, on a clock that the test moves."""

from __future__ import annotations

from logd.broker.kafka.groups.members import GroupProtocol, GroupState, JoinAnswer, SyncAnswer
from tests.broker.kafka.groups.states import GroupStateTestCase


def protocols(*names: str) -> tuple[GroupProtocol, ...]:
    """Return assignors, the preferred one first."""
    return tuple([GroupProtocol(name, name.encode()) for name in names])


class JoiningTests(GroupStateTestCase):
    """Members that join an empty group, and later ones."""

    def test_an_empty_group_waits_for_further_members(self) -> None:
        """If some join meanwhile the delay begins again at its end: members that start together share out once."""
        first, second = self.player(), self.player()
        first.join()
        self.clock.advance(2.0)
        second.join()
        self.clock.advance(2.0)
        self.assertEqual(first.joins, [])
        self.clock.advance(2.0)
        self.assertEqual(first.joins, [])
        self.clock.advance(1.0)
        self.assertEqual([first.answer.generation, second.answer.generation], [7, 7])
        self.assertEqual({each.member_id for each in first.answer.members}, {first.id, second.id})
        self.assertEqual(second.answer.members, ())

    def test_the_delay_ends(self) -> None:
        """Members that join one after the other do not hold up the first for longer than its rebalance timeout."""
        first = self.player(rebalance_timeout=5.0)
        first.join()
        for _ in range(3):
            self.clock.advance(2.0)
            self.player(rebalance_timeout=5.0).join()
        self.assertEqual(first.answer.error, 0)

    def test_two_steps(self) -> None:
        """A member without an id is given one; until it joins with that, the others wait for it."""
        first, second = self.player(), self.player(in_two_steps=True)
        first.join()
        second.join()
        self.assertEqual(second.answer.error, 79)
        self.clock.advance(3.5)
        self.assertEqual(first.joins, [])
        second.join()
        self.assertEqual((first.answer.generation, second.answer.generation), (7, 7))

    def test_an_id_that_is_not_used(self) -> None:
        """It is forgotten after the session timeout, and the others go on."""
        first, second = self.player(session_timeout=50.0), self.player(in_two_steps=True)
        first.join()
        second.join()
        self.clock.advance(3.0)
        self.clock.advance(7.0)
        self.assertEqual(first.answer.error, 0)
        second.join()
        self.assertEqual(second.answer, JoinAnswer(25, second.id))

    def test_the_assignor_with_most_votes(self) -> None:
        """Each member votes for the first of its own that all know."""
        players = self.players(
            {"protocols": protocols("mine", "range", "sticky")},
            {"protocols": protocols("sticky", "range")},
            {"protocols": protocols("sticky", "range", "other")},
        )
        self.assertEqual({player.answer.protocol for player in players}, {"sticky"})
        self.assertEqual(players[0].answer.members[2].metadata, b"sticky")

    def test_no_common_assignor(self) -> None:
        """Such a member is refused, as one of another kind is, and one that names neither."""
        self.players({}, {})
        for more in ({"protocols": protocols("other")}, {"protocol_type": "connect"}, {"protocols": ()}):
            player = self.player(**more)
            player.join()
            self.assertEqual(player.answer.error, 23)
        self.assertEqual(self.group.state, GroupState.STABLE)

    def test_the_only_member_may_change_its_mind(self) -> None:
        """There is nobody else to agree with."""
        (player,) = self.players({})
        player.join(protocol_type="connect", protocols=protocols("compatible"))
        self.assertEqual((player.answer.error, player.answer.protocol), (0, "compatible"))
        self.assertEqual(self.group.roster.protocol_type, "connect")

    def test_too_many(self) -> None:
        """A sixth member is refused; ids that are given count."""
        self.players({}, {}, {}, {})
        given, sixth = self.player(in_two_steps=True), self.player()
        given.join()
        sixth.join()
        self.assertEqual((given.answer.error, sixth.answer.error), (79, 81))

    def test_a_second_request_of_one_member(self) -> None:
        """The first one is answered too, though its client will hardly wait for it."""
        first, second = self.players({}, {})
        second.join(protocols=protocols("range", "new"))
        second.join()
        self.assertEqual(second.answer.error, 27)
        first.join()
        self.assertEqual((first.answer.generation, second.answer.generation), (8, 8))

    def test_a_request_that_was_answered_already(self) -> None:
        """A member that lost the answer is told of the present generation; the leader shares out anew."""
        first, second = self.players({}, {})
        second.join()
        self.assertEqual((second.answer.generation, second.answer.members), (7, ()))
        self.assertEqual(first.heartbeat(), 0)
        first.join()
        self.assertEqual(second.heartbeat(), 27)


class RebalanceTests(GroupStateTestCase):
    """Generations after the first."""

    def test_members_are_asked_to_join_again(self) -> None:
        """All have until the longest of their rebalance timeouts."""
        first, second = self.players({}, {})
        second.leave()
        self.assertEqual((first.heartbeat(), second.heartbeat()), (27, 25))
        first.join()
        self.assertEqual(first.answer.generation, 8)

    def test_members_that_do_not_join_are_dropped(self) -> None:
        """Although they send heartbeats, and the leader among them is replaced."""
        first, second, third = self.players({}, {}, {})
        third.leave()
        second.join()
        for _ in range(7):
            self.clock.advance(9.0)
            first.heartbeat()
        self.assertEqual((second.answer.generation, second.answer.leader), (8, second.id))
        self.assertEqual(len(second.answer.members), 1)
        self.assertEqual(first.heartbeat(), 25)

    def test_members_that_are_not_heard_of(self) -> None:
        """After the session timeout the rest shares out anew; a heartbeat begins it again."""
        first, second = self.players({}, {})
        self.clock.advance(9.0)
        self.assertEqual(first.heartbeat(), 0)
        self.clock.advance(1.0)
        self.assertEqual(first.heartbeat(), 27)
        first.join()
        self.assertEqual([each.member_id for each in first.answer.members], [first.id])
        self.assertEqual(second.heartbeat(), 25)

    def test_a_shorter_session_timeout(self) -> None:
        """It holds from the request on that names it."""
        first, second = self.players({"session_timeout": 90.0}, {})
        first.join(session_timeout=5.0)
        second.join()
        self.share([first, second])
        self.clock.advance(5.0)
        self.assertEqual(first.heartbeat(), 25)

    def test_waiting_members_need_no_heartbeats(self) -> None:
        """Their requests wait, so that they cannot be heard of."""
        first, second = self.players({}, {})
        second.join(protocols=protocols("range", "new"))
        for _ in range(5):
            self.clock.advance(9.0)
            self.assertEqual(first.heartbeat(), 27)
        first.join()
        self.assertEqual(second.answer.generation, 8)

    def test_a_member_without_its_assignment(self) -> None:
        """If it does not ask for it in time it is dropped, with a rebalance of the others."""
        first, second = self.player(rebalance_timeout=20.0), self.player(rebalance_timeout=20.0)
        first.join()
        second.join()
        self.begin()
        first.sync({first.id: b"1", second.id: b"2"})
        for _ in range(3):
            self.clock.advance(7.0)
            first.heartbeat(), second.heartbeat()
        self.assertEqual((first.heartbeat(), second.heartbeat()), (27, 25))

    def test_a_leader_that_sends_no_assignments(self) -> None:
        """The others wait for the rebalance timeout, and are asked to join again."""
        first, second = self.player(rebalance_timeout=8.0), self.player(rebalance_timeout=8.0)
        first.join()
        second.join()
        self.begin()
        second.sync()
        self.clock.advance(8.0)
        self.assertEqual(second.syncs, [SyncAnswer(27)])
        second.join()
        self.assertEqual(second.answer.leader, second.id)

    def test_a_member_joins_before_the_assignments_are_there(self) -> None:
        """Those that wait for them are told to join again."""
        first, second = self.player(), self.player()
        first.join()
        self.clock.advance(3.0)
        first.syncs.clear()
        second.join()
        first.sync({first.id: b""})
        self.assertEqual(first.syncs, [SyncAnswer(27)])

    def test_errors_of_generations_and_members(self) -> None:
        """Requests of other generations and of nobody are refused."""
        (player,) = self.players({})
        self.assertEqual(self.group.heartbeat(player.id, None, 6), 22)
        self.assertEqual(self.group.heartbeat("nobody", None, 7), 25)
        self.assertEqual(self.group.check_commit(player.id, None, 6), 22)
        self.assertEqual(self.group.check_commit("", None, -1), 25)
        answers: list[SyncAnswer] = []
        self.group.sync(player.id, None, 6, {}, answers.append)
        self.group.sync("nobody", None, 7, {}, answers.append)
        self.assertEqual(answers, [SyncAnswer(22), SyncAnswer(25)])
        self.assertEqual(self.group.leave("nobody", None), 25)

    def test_commits_while_a_generation_begins(self) -> None:
        """Those of the last one are taken until the next one has begun, whose members know no assignment yet."""
        first, second = self.players({}, {})
        second.join(protocols=protocols("range", "new"))
        self.assertEqual(first.commit(), 0)
        first.join()
        self.assertEqual(first.commit(), 27)
        self.share([first, second])
        self.assertEqual(first.commit(), 0)

    def test_the_last_member_leaves(self) -> None:
        """The group is given back, whatever it was waiting for."""
        (player,) = self.players({})
        self.assertEqual(self.owner.emptied_times, 0)
        player.leave()
        self.assertEqual((self.owner.emptied_times, self.group.state), (1, GroupState.EMPTY))

    def test_all_members_vanish(self) -> None:
        """One after the other is dropped."""
        self.players({}, {"session_timeout": 20.0})
        for _ in range(20):
            self.clock.advance(5.0)
        self.assertTrue(self.group.roster.is_unused)
        self.assertGreater(self.owner.emptied_times, 0)


class LostConnectionTests(GroupStateTestCase):
    """Connections that end while requests wait."""

    def test_of_a_new_member_of_an_old_client(self) -> None:
        """Its client never learned its id, so it is no member any more."""
        first, second = self.players({}, {})[0], self.player()
        second.join()
        self.assertEqual(first.heartbeat(), 27)
        second.lose_join()
        self.assertEqual(len(self.group.roster), 2)

    def test_of_a_member_that_knows_its_id(self) -> None:
        """It has its session timeout to come back."""
        first, second = self.players({}, {})
        second.join(protocols=protocols("range", "new"))
        second.lose_join()
        self.clock.advance(6.0)
        first.heartbeat()
        first.join()
        self.assertEqual(first.answer.generation, 7)
        self.clock.advance(4.0)
        self.assertEqual([each.member_id for each in first.answer.members], [first.id])


class WritingTests(GroupStateTestCase):
    """Requests while the number of a generation is written to the tree."""

    def setUp(self) -> None:
        """Let the test end the writing."""
        super().setUp()
        self.owner.at_once = False

    def test_answers_wait_for_the_writing(self) -> None:
        """A member that joins meanwhile is in the generation too; one that leaves is not."""
        first, second, third = self.player(), self.player(), self.player()
        first.join()
        second.join()
        self.begin()
        self.assertEqual((self.owner.writing, first.joins), ([7], []))
        third.join()
        leaving = next(iter(self.group.roster.members))
        self.group.leave(leaving, None)
        self.group.generation_written(7)
        self.assertEqual(self.owner.writing, [7])
        self.assertEqual((first.answer.error, second.answer.error, third.answer.error), (25, 0, 0))
        self.assertEqual(second.answer.leader, second.id)
        self.assertEqual(len(second.answer.members), 2)

    def test_all_leave_meanwhile(self) -> None:
        """Then nothing begins."""
        player = self.player()
        player.join()
        self.clock.advance(3.0)
        self.group.leave(next(iter(self.group.roster.members)), None)
        self.group.generation_written(7)
        self.assertEqual((self.group.state, player.answer.error), (GroupState.EMPTY, 25))

    def test_the_group_is_given_up(self) -> None:
        """All that wait are told that this is no coordinator any more."""
        player = self.player()
        player.join()
        self.clock.advance(3.0)
        self.group.give_up()
        self.assertEqual(player.answer.error, 16)


class StaticMemberTests(GroupStateTestCase):
    """Members with a name of their own, which keep their place when they start again."""

    def test_one_that_starts_again(self) -> None:
        """It has another id, and its former assignment, without a rebalance; who still has the old id is fenced."""
        first, second = self.players({}, {"instance_id": "s"})
        again = self.player(instance_id="s")
        again.join()
        self.assertEqual((again.answer.error, again.answer.generation), (0, 7))
        again.sync()
        self.assertEqual(again.syncs, [SyncAnswer(0, b"1")])
        self.assertEqual((first.heartbeat(), again.heartbeat(), second.heartbeat()), (0, 0, 82))
        self.assertEqual((second.commit(), second.leave()), (82, 82))

    def test_the_leader_starts_again(self) -> None:
        """It is told of its former id as the leader, so that it does not share out anew; it is the leader later on."""
        first, second = self.players({"instance_id": "s"}, {})
        again = self.player(instance_id="s")
        again.join()
        self.assertEqual((again.answer.leader, again.answer.members), (first.id, ()))
        self.player().join()
        again.join()
        second.join()
        self.assertEqual(again.answer.leader, again.id)
        self.assertEqual(len(again.answer.members), 3)

    def test_another_choice_of_assignors(self) -> None:
        """If the group's assignor changes by it, the group shares out anew."""
        first, _ = self.players({"protocols": protocols("a", "b")}, {"instance_id": "s", "protocols": protocols("a")})
        again = self.player(instance_id="s", protocols=protocols("b"))
        again.join()
        self.assertEqual((first.heartbeat(), again.joins), (27, []))
        first.join()
        self.assertEqual((first.answer.protocol, again.answer.generation), ("b", 8))

    def test_while_its_former_self_waits(self) -> None:
        """That one is fenced at once."""
        _, second = self.players({}, {"instance_id": "s"})
        second.join(protocols=protocols("range", "new"))
        again = self.player(instance_id="s")
        again.join()
        self.assertEqual(second.answer.error, 82)

    def test_it_stays_until_its_session_ends(self) -> None:
        """Also through generations that it does not join."""
        first, second, third = self.players({}, {"instance_id": "s", "session_timeout": 90.0}, {})
        third.leave()
        for _ in range(7):
            first.heartbeat()
            first.join()
            self.clock.advance(9.0)
        self.assertEqual(first.answer.generation, 8)
        self.assertEqual({each.member_id for each in first.answer.members}, {first.id, second.id})
        self.assertEqual(second.heartbeat(), 22)

    def test_nobody_joins_who_waits_for_nobody(self) -> None:
        """The group looks for members now and then, and not in each turn of the reactor until the session ends."""
        first, second = self.players({}, {"instance_id": "s", "rebalance_timeout": 0.0})
        first.leave()
        soonest = min(call.getTime() for call in self.clock.getDelayedCalls())
        self.assertGreaterEqual(soonest, self.clock.seconds() + 1.0)
        self.clock.advance(2.0)
        second.join()
        self.assertEqual((second.answer.error, second.answer.generation), (0, 8))
        second.sync({second.id: b"all"})
        self.assertEqual(second.syncs[-1], SyncAnswer(0, b"all"))

    def test_it_is_removed_by_its_name(self) -> None:
        """An administrator does not know its id."""
        first, _ = self.players({}, {"instance_id": "s"})
        self.assertEqual(self.group.leave("", "s"), 0)
        self.assertEqual(self.group.leave("", "s"), 25)
        self.assertEqual(first.heartbeat(), 27)

    def test_a_name_that_is_unknown(self) -> None:
        """With an id, it is that of no member."""
        player = self.player(instance_id="s", member_id="s-1")
        player.join()
        self.assertEqual(player.answer.error, 25)
