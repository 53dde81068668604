"""Clients of Kafka join, leave and commit in groups that a broker coordinates."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from twisted.logger import capturedLogs

from logd.broker.kafka import error_codes
from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.deferreds import fair_turns
from tests.broker.kafka.groups.clients import GroupClient, GroupsTestCase

COORDINATOR = "/consumers/g/coordinator"


class MembershipTests(GroupsTestCase):
    """One broker, the only one of its tree."""

    def test_a_group_of_one(self) -> None:
        """It joins in two steps, is the leader, gets its own assignment, commits, reads that, and leaves."""
        client = self.client()
        client.send_join()
        self.assertEqual(client.joined().error_code, 79)
        self.assertTrue(client.member_id.startswith("tests-"))
        answer = client.join()
        self.assertEqual((answer.error_code, answer.generation_id, answer.protocol_name), (0, 1, "range"))
        self.assertTrue(client.leads)
        self.assertEqual([(m.member_id, m.metadata) for m in client.members], [(client.member_id, b"mine")])
        self.assertEqual(client.sync({client.member_id: b"yours"}).assignment, b"yours")
        self.assertEqual(client.heartbeat(), 0)
        self.assertEqual(client.commit(("t", 0, 17, "text"), ("t", 1, 0, "")), [0, 0])
        self.assertEqual(client.positions(), {("t", 0): (17, "text"), ("t", 1): (0, "")})
        self.assertEqual(client.leave().members[0].error_code, 0)
        self.assertEqual(self.tree_value("/consumers/g/offsets/t/0"), b"17")
        self.assertEqual(self.tree_value("/consumers/g/metadata/t/0"), b"text")
        self.assertIsNone(self.tree_value("/consumers/g/metadata/t/1"))

    def test_the_claim_lasts_as_long_as_there_are_members(self) -> None:
        """The coordinator's node is there while they are, and the generation goes on where it was."""
        client = self.member()
        self.assertEqual(self.tree_value(COORDINATOR), b"0")
        self.assertEqual(self.tree_value("/consumers/g/generation"), b"1")
        client.leave()
        self.assertIsNone(self.tree_value(COORDINATOR))
        self.assertEqual(self.member().generation, 2)

    def test_every_version(self) -> None:
        """Clients of all ages can join, commit and leave."""
        for version in range(6):
            client = self.client()
            self.assertEqual(client.join(version).error_code, 0, version)
            self.assertEqual(client.sync({client.member_id: b"a"}, min(version, 3)).assignment, b"a")
            self.assertEqual(client.heartbeat(min(version, 3)), 0)
            self.assertEqual(client.commit(("t", 0, version, ""), version=version + 2), [0])
            self.assertEqual(client.positions(("t", 0), version=version), {("t", 0): (version, "")})
            self.assertEqual(client.leave(min(version, 3)).error_code, 0)

    def test_a_connection_that_is_lost_while_the_group_is_claimed(self) -> None:
        """Its client is no member: others would wait for it until its session timeout."""
        client = self.client()
        client.send_join(3)
        self.assertEqual(self.broker.kafka_groups.get().groups, {})
        client.peer.lose()
        self.settle()
        self.assertEqual(self.broker.kafka_groups.get().groups, {})
        self.assertIsNone(self.tree_value(COORDINATOR))
        self.assertEqual(self.timers(), [])

    def test_two_members_share(self) -> None:
        """The second one makes the first one join again; the leader sends the assignments of both."""
        first, second = self.member(), self.client()
        second.send_join()
        self.assertEqual(second.joined().error_code, 79)
        second.send_join()
        self.settle()
        self.assertEqual(second.peer.answers(), [])
        self.assertEqual(first.heartbeat(), 27)
        first.send_join()
        first.joined()
        second.joined()
        self.assertEqual((first.generation, second.generation), (2, 2))
        self.assertEqual((first.leads, second.leads), (True, False))
        self.assertEqual({m.member_id for m in first.members}, {first.member_id, second.member_id})
        self.assertEqual(second.members, [])
        second.send_sync()
        self.settle()
        self.assertEqual(second.peer.answers(), [])
        self.assertEqual(first.sync({first.member_id: b"1", second.member_id: b"2"}).assignment, b"1")
        (answer,) = second.peer.answers()
        self.assertEqual(answer.assignment, b"2")

    def test_a_member_with_the_longest_name(self) -> None:
        """Its id is shorter than that: the leader is told of it, and would lose its connection by a text too long."""
        first, second = self.member(), self.client("ä" * 16_383)
        for _ in range(2):  # its first start, and another one
            second.send_join(member_id="")
            self.settle()
            if first.heartbeat() == 27:
                first.send_join()
                self.assertEqual(first.joined().error_code, 0)
            self.assertEqual(second.joined().error_code, 0)
            first.sync()
        self.assertEqual(len(first.members), 2)
        self.assertEqual(first.heartbeat(), 0)

    def test_hundreds_that_come_first_are_all_answered(self) -> None:
        """While the first one claims the group the others wait, and then each of them gets an id."""
        clients = [self.client() for _ in range(300)]
        for client in clients:
            client.send_join()
        self.settle()
        self.assertEqual({client.joined().error_code for client in clients}, {79})
        self.assertEqual(len({client.member_id for client in clients}), len(clients))

    def test_find_coordinator(self) -> None:
        """The broker names itself; transactions have no coordinator, by the code that clients take for final."""
        peer = self.kafka()
        for version in range(3):
            answer = self.ask(peer, FindCoordinatorRequest[version](key="g", key_type=0))
            self.assertEqual((answer.error_code, answer.node_id), (0, 0))
            self.assertTrue(answer.host)
        with capturedLogs() as logged:
            for _ in range(3):
                refused = self.ask(peer, FindCoordinatorRequest[2](key="g", key_type=1))
                self.assertEqual(refused.error_code, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        self.assertEqual(len([each for each in logged if "transactional id" in each["log_format"]]), 1)
        self.assertEqual(self.ask(peer, FindCoordinatorRequest[2](key="g", key_type=2)).error_code, 42)
        self.assertEqual(self.ask(peer, FindCoordinatorRequest[2](key="a/b", key_type=0)).error_code, 24)

    def test_many_members_are_answered_in_turns(self) -> None:
        """Of the reactor, the leader first, when a generation begins, and when its assignments are there."""
        clients = [self.client() for _ in range(8)]
        leader, others = clients[0], clients[1:]
        for client in clients:
            client.send_join(version=3)
        self.settle()
        self.wait(0.3)
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        self.clock.advance(0.3)
        joined = self.answers_of_turns(clients)
        self.assertEqual([len(each) for each in joined], [1] * 8)
        for client, (answer,) in zip(clients, joined, strict=True):
            self.assertEqual(answer.error_code, 0)
            client.member_id, client.generation = answer.member_id, answer.generation_id
        self.assertEqual([len(answer.members) for (answer,) in joined], [8] + [0] * 7)
        for client in others:
            client.send_sync()
        self.settle()
        leader.send_sync({client.member_id: b"yours" for client in clients})
        synced = self.answers_of_turns(clients)
        self.assertEqual([[each.assignment for each in turn] for turn in synced], [[b"yours"]] * 8)

    def answers_of_turns(self, clients: list[GroupClient]) -> list[list[Any]]:
        """Return the answers that leave in each turn of the reactor, without turns that have none."""
        turns: list[list[Any]] = []

        def look(left: int) -> None:  # a timer of each turn, as the clock runs those of many in one call
            found = [answer for client in clients for answer in client.peer.answers()]
            if found:
                turns.append(found)
            if left:
                self.clock.callLater(0, look, left - 1)

        for _ in range(10):
            self.tree_clock.advance(0)
            look(5 * len(clients))
            self.clock.advance(0)
        return turns

    def test_a_client_that_is_no_member_commits(self) -> None:
        """It may while the group has no members, and may not while it has."""
        client = self.client()
        self.assertEqual(client.commit_alone(("t", 0, 5, "alone")), [0])
        self.assertEqual(client.positions(("t", 0)), {("t", 0): (5, "alone")})
        self.assertEqual(client.commit_alone(("t", 0, 6, "")), [0])
        self.assertEqual(client.positions(("t", 0)), {("t", 0): (6, "")})
        self.member()
        self.assertEqual(client.commit_alone(("t", 0, 7, "")), [25])
        self.assertEqual(client.positions(("t", 0), ("t", 1)), {("t", 0): (6, ""), ("t", 1): (-1, "")})

    def test_a_client_that_is_no_member_and_has_a_name(self) -> None:
        """Java's consumer tells its ``group.instance.id`` also where it was told its partitions; others an old id."""
        client = self.client("name")
        self.assertEqual(client.commit(("t", 0, 5, ""), member_id=""), [0])
        self.assertEqual(client.commit(("t", 0, 6, ""), member_id="former", group_instance_id=None), [0])
        waiting = self.client()
        waiting.send_join()
        self.assertEqual(waiting.joined().error_code, 79)  # it has an id, and is no member yet
        self.assertEqual(client.commit(("t", 0, 7, ""), member_id=""), [0])
        self.assertEqual(client.positions(("t", 0)), {("t", 0): (7, "")})
        waiting.join()
        self.assertEqual(client.commit(("t", 0, 8, ""), member_id=""), [25])

    def test_positions_while_the_tree_does_not_answer(self) -> None:
        """The client looks for the coordinator again: by another code consumers would end."""
        self.patch(GroupCoordinator, "_in_touch", False)
        kind = OffsetFetchRequest.OffsetFetchRequestTopic
        for version in range(6):
            request = OffsetFetchRequest[version](group_id="g", topics=[kind(name="t", partition_indexes=[0])])
            answer = self.ask(self.kafka(), request)
            error = answer.topics[0].partitions[0].error_code if version < 2 else answer.error_code
            self.assertEqual(error, error_codes.NOT_COORDINATOR, version)

    def test_what_cannot_be_committed(self) -> None:
        """Each partition has its own error."""
        client = self.member()
        long = "x" * 5000
        self.assertEqual(
            client.commit(("t", 0, 5, long), ("t", 9, 5, ""), ("nix", 0, 5, ""), ("t", 1, 5, "")), [12, 3, 3, 0]
        )
        self.assertEqual(client.commit(("t", 0, -3, "")), [42])
        self.assertEqual(client.positions(), {("t", 1): (5, "")})
