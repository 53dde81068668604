"""Tests of the controller's part in unclean elections: who leads is who was shown, and nobody if no loss is needed."""

from __future__ import annotations

from unittest import mock

from attrs import evolve
from twisted.internet.defer import Deferred

from logd.broker.replication.control.controller import Controller
from logd.coord import paths
from logd.coord.registries.operator_requests import RequestedElection, request_election, withdraw_election
from logd.errors import InvalidRequest
from logd.leadership import NO_LEADER
from logd.protocol.requests.replicas.describe_replicas import FOLLOWS, DescribedReplica
from tests.broker.replication.control.test_controller import TOPIC, ControllerTestCase
from tests.coord.registries.rig import SESSION


class UncleanElectionTestCase(ControllerTestCase):
    """A partition of which broker 1 alone has everything."""

    def setUp(self) -> None:
        """Let broker 1 be its only in-sync replica."""
        super().setUp()
        self.write(self.state(1, (1,)))

    def is_asked(self) -> bool:
        """Return whether the request still stands."""
        return self.outcome(self.tree.exists(paths.election(TOPIC))) is not None


class UncleanElectionTests(UncleanElectionTestCase):
    """Requests of one election."""

    def test_the_replica_that_was_named_and_no_other(self) -> None:
        """A person has agreed to what is lost if broker 2 leads: while it is away, none that may lack more does."""
        self.kill(1)
        self.kill(2)
        self.pass_time(SESSION + 1)
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0], leaders={0: 2}))
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (NO_LEADER, True))
        self.members[2] = self.member(2)
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (2, False))

    def test_a_replica_that_dies_while_the_brokers_are_asked(self) -> None:
        """They are asked again, as the one with the most is another one now."""
        self.kill(1)
        self.pass_time(SESSION + 1)
        (controller,) = self.controllers()
        other = next(number for number in self.members if number != controller)
        asked: list[Deferred[None]] = []

        async def survey(topic: str) -> dict[int, list[DescribedReplica]]:
            found = {number: [DescribedReplica(0, FOLLOWS, end=number == other)] for number in self.members}
            asked.append(Deferred())
            await asked[-1]
            return found

        self.members[controller].controller._operators._survey = survey
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0]))
        self.pass_time(2)
        self.kill(other)
        self.pass_time(SESSION + 1)
        asked[0].callback(None)
        self.pass_time(3)
        self.assertEqual((self.stored().leader, len(asked)), (NO_LEADER, 2))
        asked[1].callback(None)
        self.pass_time(1)
        self.assertEqual(self.stored().leader, controller)

    def test_one_of_two_partitions_is_taken_back(self) -> None:
        """The election of the other one goes on to wait for the replica that was named."""
        self.write(self.state(1, (1,)), 1)
        self.kill(1)
        self.kill(2)
        self.pass_time(SESSION + 1)
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0, 1], leaders={0: 2, 1: 2}))
        self.pass_time(3)
        self.assertEqual(self.outcome(withdraw_election(self.tree, TOPIC, "uuid", [1])), (1,))
        self.members[2] = self.member(2)
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.stored(1).leader, self.is_asked()), (2, NO_LEADER, False))

    def test_what_was_asked_for_a_former_topic_is_removed(self) -> None:
        """It is none of this topic's elections; the same for a node that nobody can read."""
        for data in (RequestedElection("former", (0,)).encode(), b"?"):
            self.outcome(self.tree.create(paths.election(TOPIC), data, makepath=True))
            self.assertEqual(self.outcome(withdraw_election(self.tree, TOPIC, "uuid", [0])), ())
            self.assertFalse(self.is_asked())

    def test_nothing_is_lost_while_a_member_lives(self) -> None:
        """It has come back in this moment, and is about to be chosen."""
        self.patch(Controller, "_work", lambda controller: None)
        self.write(evolve(self.state(1, (1,)), leader=NO_LEADER, leader_epoch=1))
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0], leaders={0: 2}))
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (NO_LEADER, False))

    def test_a_controller_that_has_not_read_the_state_yet(self) -> None:
        """With thousands of partitions a new one needs some seconds for that. The request waits, and is not dropped."""
        self.kill(1)
        self.pass_time(SESSION + 1)
        (controller,) = self.controllers()
        states = self.members[controller].states
        with mock.patch.multiple(states, get=lambda topic, number: None, is_read=lambda topic, number: number > 0):
            self.outcome(request_election(self.tree, TOPIC, "uuid", [0]))
            self.pass_time(3)
            self.assertEqual((self.stored().leader, self.is_asked()), (NO_LEADER, True))
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (2, False))

    def test_a_state_that_cannot_be_read(self) -> None:
        """It has no election, and keeps no other partition waiting for one."""
        self.kill(1)
        self.pass_time(SESSION + 1)
        (controller,) = self.controllers()
        states = self.members[controller].states
        get = states.get
        with mock.patch.object(states, "get", lambda topic, number: None if number else get(topic, number)):
            self.outcome(request_election(self.tree, TOPIC, "uuid", [0, 1]))
            self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (2, False))


class FurtherRequestTests(UncleanElectionTestCase):
    """Requests that come while the election of partition 0 waits for broker 2, as a person has decided."""

    def setUp(self) -> None:
        """Take the leader of both partitions away, and broker 2."""
        super().setUp()
        self.write(self.state(1, (1,)), 1)
        self.kill(1)
        self.kill(2)
        self.pass_time(SESSION + 1)
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0], leaders={0: 2}))

    def asked(self) -> RequestedElection:
        """Return what is asked for now."""
        return RequestedElection.decode(self.outcome(self.tree.get(paths.election(TOPIC)))[0])

    def test_another_partition(self) -> None:
        """Its election does not wait for that of the first one, which goes on to wait."""
        self.pass_time(3)
        self.outcome(request_election(self.tree, TOPIC, "uuid", [1], leaders={1: 3}))
        self.assertEqual(self.asked(), RequestedElection("uuid", (0, 1), True, {0: 2, 1: 3}))
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.stored(1).leader), (NO_LEADER, 3))
        self.assertEqual(self.asked(), RequestedElection("uuid", (0,), True, {0: 2}))
        self.members[2] = self.member(2)
        self.pass_time(3)
        self.assertEqual((self.stored().leader, self.is_asked()), (2, False))

    def test_another_leader_of_the_partition(self) -> None:
        """The one that was named last leads."""
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0], leaders={0: 3}))
        self.assertEqual(self.asked(), RequestedElection("uuid", (0,), True, {0: 3}))
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0]))
        self.assertEqual(self.asked(), RequestedElection("uuid", (0,)))

    def test_preferred_leaders(self) -> None:
        """They are refused, with the way to take the decision back."""
        before = self.asked()
        error = self.error(request_election(self.tree, TOPIC, "uuid", [0, 1], unclean=False))
        self.assertIsInstance(error, InvalidRequest)
        self.assertIn(f"election of {TOPIC}-0 was asked for, and is not held yet", str(error))
        self.assertEqual(self.asked(), before)

    def test_what_waits_for_preferred_leaders(self) -> None:
        """Partitions come together; an unclean election, which a person has decided on, replaces them."""
        self.outcome(withdraw_election(self.tree, TOPIC, "uuid", []))
        for number in (1, 0):
            self.outcome(request_election(self.tree, TOPIC, "uuid", [number], unclean=False))
        self.assertEqual(self.asked(), RequestedElection("uuid", (0, 1), False))
        self.outcome(request_election(self.tree, TOPIC, "uuid", [1]))
        self.assertEqual(self.asked(), RequestedElection("uuid", (1,)))

    def test_a_topic_that_was_made_again(self) -> None:
        """A request about the former one, or one that cannot be read, is no decision about it."""
        for data in (RequestedElection("former", (1,)).encode(), b"?"):
            self.outcome(self.tree.set(paths.election(TOPIC), data))
            self.outcome(request_election(self.tree, TOPIC, "uuid", [0], unclean=False))
            self.assertEqual(self.asked(), RequestedElection("uuid", (0,), False))
