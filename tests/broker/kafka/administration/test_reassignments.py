"""Tests of reassignments and elections that Kafka's clients ask for: of three live brokers, only this one works."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from logd.broker.replication.control.operations import ReplicaOperations
from logd.config.replication import ReplicationSettings
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.coord.registries.brokers import BrokerInfo
from logd.leadership import NO_LEADER
from logd.protocol.requests.replicas.describe_replicas import FOLLOWS, OFFLINE, DescribedReplica
from logd.testing.inprocess.client import InProcessCoordination
from tests.broker.kafka.administration.test_replicas import ReplicasTestCase
from tests.broker.kafka.administration.test_topics import creation

Replicas = dict[tuple[str, int], list[int] | None]


def alteration(version: int, wanted: Replicas, *, may_change_factor: bool = True) -> Any:
    """Return a request for replicas of partitions."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics = [
        kind(name=topic, partitions=[kind.ReassignablePartition(partition_index=number, replicas=replicas)])
        for (topic, number), replicas in wanted.items()
    ]
    more = {"allow_replication_factor_change": may_change_factor} if version else {}
    return AlterPartitionReassignmentsRequest[version](timeout_ms=1000, topics=topics, **more)


def election(version: int, topics: dict[str, list[int]] | None, kind: int = 0) -> Any:
    """Return a request for elections."""
    parts = ElectLeadersRequest.TopicPartitions
    wanted = None if topics is None else [parts(topic=each, partitions=ids) for each, ids in topics.items()]
    more = {"election_type": kind} if version else {}
    return ElectLeadersRequest[version](topic_partitions=wanted, timeout_ms=4000, **more)


class ReassignmentsTestCase(ReplicasTestCase):
    """Broker 0, of which brokers 1 and 2 take or give leaderships."""

    def make(self, name: str, assigned: dict[int, list[int]]) -> None:
        """Create a topic with these replicas."""
        self.assertEqual(self.codes(self.peer, creation(4, (name, -1, -1), assigned=assigned)), [(name, 0)])
        self.pass_seconds(0.5)

    def pass_seconds(self, seconds: float) -> None:
        """Let the controller work."""
        for _ in range(round(seconds * 4)):
            self.clock.advance(0.25)
            self.settle()

    def leader(self, name: str) -> int:
        """Return the leader of partition 0."""
        state = self.broker.operations.state(name, 0)
        assert state is not None
        return state.leader


class AlterTests(ReassignmentsTestCase):
    """AlterPartitionReassignments and ListPartitionReassignments."""

    def alter(self, wanted: Replicas, version: int = 1, **more: Any) -> list[int]:
        """Ask for replicas; return the code of each partition."""
        answer = self.ask(self.peer, alteration(version, wanted, **more))
        self.assertEqual(answer.error_code, 0)
        return [part.error_code for topic in answer.responses for part in topic.partitions]

    def listed(self, asked: dict[str, list[int]] | None = None) -> dict[tuple[str, int], tuple[list[int], ...]]:
        """Return replicas, adding and removing replicas of what is under way."""
        kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        topics = None if asked is None else [kind(name=each, partition_indexes=ids) for each, ids in asked.items()]
        answer = self.ask(self.peer, ListPartitionReassignmentsRequest[0](timeout_ms=1000, topics=topics))
        self.assertEqual(answer.error_code, 0)
        return {
            (topic.name, part.partition_index): (part.replicas, part.adding_replicas, part.removing_replicas)
            for topic in answer.topics
            for part in topic.partitions
        }

    def test_one_partition_after_the_other(self) -> None:
        """The request for one partition stands when another is altered or cancelled, and each goes its own way."""
        self.make("t", {0: [0, 1], 1: [0, 1], 2: [0, 1]})
        self.assertEqual(self.listed(), {})
        self.assertEqual(self.alter({("t", 0): [0, 2]}, version=0), [0])
        self.assertEqual(self.alter({("t", 1): [0, 1, 2]}), [0])
        expected = {("t", 0): ([0, 2, 1], [2], [1]), ("t", 1): ([0, 1, 2], [2], [])}
        self.assertEqual(self.listed(), expected)
        self.pass_seconds(3)
        self.assertEqual((self.placed("t")[0], self.placed("t")[1]), ((0, 1, 2), (0, 1, 2)))
        self.assertEqual(self.listed(), expected)
        self.assertEqual(self.listed({"t": [1, 2, 7], "no-such": [0]}), {("t", 1): expected["t", 1]})
        self.assertEqual(self.alter({("t", 0): None, ("t", 2): None}), [0, 85])
        self.assertEqual(self.listed()["t", 0], ([0, 1, 2], [], [2]))
        self.assertEqual(self.alter({("t", 0): None}), [85])  # it is on its way back
        self.pass_seconds(3)
        self.assertEqual((self.placed("t")[0], self.placed("t")[1]), ((0, 1), (0, 1, 2)))
        self.assertEqual(self.listed(), {("t", 1): expected["t", 1]})
        self.assertEqual(self.alter({("t", 1): [0, 1]}), [0])
        self.pass_seconds(3)
        self.assertEqual((self.placed("t")[1], self.listed()), ((0, 1), {}))

    def test_an_end_to_all_of_it(self) -> None:
        """A cancel before the first step leaves everything as it was; the same replicas as now are no reassignment."""
        self.make("t", {0: [0, 1]})
        self.assertEqual(self.alter({("t", 0): [0, 2]}), [0])
        self.assertEqual(self.alter({("t", 0): None}), [0])
        self.pass_seconds(3)
        self.assertEqual((self.placed("t"), self.listed()), ({0: (0, 1)}, {}))
        self.assertEqual(self.alter({("t", 0): [0, 1]}), [0])
        self.assertEqual((self.alter({("t", 0): None}), self.listed()), ([85], {}))

    def test_what_cannot_be_is_refused(self) -> None:
        """Each partition by itself, with Kafka's code; the others are altered."""
        self.make("t", {0: [0, 1], 1: [0, 1]})
        cases: list[tuple[Replicas, list[int]]] = [
            ({("t", 0): [0, 7]}, [39]),
            ({("t", 0): [0, 0]}, [39]),
            ({("t", 0): []}, [39]),
            ({("t", 0): list(range(101))}, [39]),
            ({("t", 9): [0]}, [3]),
            ({("no-such", 0): [0]}, [3]),
            ({("no-such", 0): None}, [3]),
            ({("t", 0): [7], ("t", 1): [1, 0]}, [39, 0]),
        ]
        for wanted, codes in cases:
            self.assertEqual(self.alter(wanted), codes, wanted)
        self.assertEqual(list(self.listed()), [("t", 1)])
        self.assertEqual(self.alter({("t", 0): [0, 1, 2]}, may_change_factor=False), [38])
        self.assertEqual(self.alter({("t", 0): [0, 2]}, may_change_factor=False), [0])
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = kind.ReassignablePartition(partition_index=0, replicas=[0, 1])
        twice = [kind(name="t", partitions=[part, part])]
        answer = self.ask(self.peer, AlterPartitionReassignmentsRequest[1](timeout_ms=1000, topics=twice))
        self.assertEqual([each.error_code for each in answer.responses[0].partitions], [0, 42])

    def test_changes_and_refusals_are_recorded(self) -> None:
        """Each record names the user and the request."""
        self.make("t", {0: [0, 1]})
        self.alter({("t", 0): [0, 2]})
        (record,) = [each for each in self.events.events if each.get("action") == "reassign replicas"]
        self.assertEqual((record["name"], record["details"]), ("t", {"replicas": {"0": [0, 2]}}))


class ElectTests(ReassignmentsTestCase):
    """ElectLeaders."""

    #: The others follow nobody, and stay in sync all the same.
    options = {"replication": ReplicationSettings(replica_lag_ms=3_600_000)}  # noqa: RUF012

    def setUp(self) -> None:
        """Have a session for each of the other brokers, which can end."""
        super().setUp()
        self.sessions: dict[int, InProcessCoordination] = {}

    def register(self, number: int, instance: str = "") -> None:
        """Let a broker be live."""
        session = self.sessions[number] = InProcessCoordination(self.tree, self.tree_clock)
        session.connect()
        self.settle()
        info = BrokerInfo(number, f"b{number}.example", 6667, instance or f"instance-{number}")
        session.create(paths.broker(number), info.encode(), ephemeral=True)
        self.settle()

    def end(self, number: int) -> None:
        """Let a broker be dead."""
        self.sessions.pop(number).close()
        self.pass_seconds(0.5)  # not for so long that the leader takes it out of the in-sync set

    def elect(self, topics: dict[str, list[int]] | None, kind: int = 0, version: int = 2) -> dict[tuple[str, int], int]:
        """Ask for elections, and let 5 seconds pass; return the code of each partition."""
        self.peer.send(election(version, topics, kind))
        self.settle()
        self.pass_seconds(5)
        return self.codes_of(version)

    def codes_of(self, version: int) -> dict[tuple[str, int], int]:
        """Take an answer; return the code of each partition."""
        (answer,) = self.peer.answers()
        return self.codes_in(answer, version)

    def codes_in(self, answer: Any, version: int) -> dict[tuple[str, int], int]:
        """Return the code of each partition in an answer."""
        self.assertFalse(version and answer.error_code)
        return {
            (topic.topic, part.partition_id): part.error_code
            for topic in answer.replica_election_results
            for part in topic.partition_result
        }

    def test_preferred_leaders(self) -> None:
        """They lead once the answer is there; for the rest there are codes, left out where all were asked for."""
        self.register(5)
        self.make("t", {0: [5, 0], 1: [0, 5], 2: [5, 0]})
        self.make("u", {0: [5, 0]})
        self.make("one", {0: [5]})
        self.end(5)
        self.assertEqual((self.leader("t"), self.leader("u")), (0, 0))
        self.peer.send(election(2, {"t": [0, 0, 1], "one": [0]}))
        self.settle()
        self.assertEqual(self.codes_of(2), {("t", 0): 80, ("t", 1): 84, ("one", 0): 80})
        self.register(5)
        found = self.elect({"t": [0, 1, 9], "no-such": [0], "one": [0]}, version=0)
        self.assertEqual(found, {("t", 0): 0, ("t", 1): 84, ("t", 9): 3, ("no-such", 0): 3, ("one", 0): 84})
        self.assertEqual((self.leader("t"), self.leader("u")), (5, 0))
        self.assertEqual(self.elect(None, version=1), {("t", 2): 0, ("u", 0): 0})
        self.assertEqual(self.leader("u"), 5)
        self.assertEqual(self.elect(None), {})

    def test_an_unclean_election(self) -> None:
        """Only of type 1, only without a leader, and only if there is a live replica."""
        self.register(5)
        self.register(6)
        self.make("t", {0: [5, 6]})
        self.assertEqual(self.elect({"t": [0]}, 1), {("t", 0): 84})
        self.end(6)
        self.end(5)
        self.assertEqual(self.leader("t"), NO_LEADER)
        self.assertEqual(self.elect({"t": [0]}, 1), {("t", 0): 83})
        self.register(6, "another-disk")
        self.assertEqual(self.elect({"t": [0]}), {("t", 0): 80})
        self.pass_seconds(3)
        self.assertEqual(self.leader("t"), NO_LEADER)
        self.assertEqual(self.elect({"t": [0]}, 1), {("t", 0): 7})  # it does not tell what it has

    def test_an_unclean_election_takes_a_replica_that_tells_what_it_has(self) -> None:
        """Broker 0 has a log, and was not in sync."""
        self.register(5)
        self.register(6)
        self.make("t", {0: [6, 5, 0]})
        self.change("t", in_sync=(6,))
        self.end(6)
        self.assertEqual(self.leader("t"), NO_LEADER)
        self.assertEqual(self.elect({"t": [0]}, 1), {("t", 0): 0})
        self.assertEqual(self.leader("t"), 0)

    def test_a_leader_whose_log_is_offline(self) -> None:
        """It has what nobody else has, and no other replica may lead while it is live; that it leads is no answer."""
        self.register(5)
        self.make("t", {0: [0, 5]})
        self.make("one", {0: [0]})
        self.end(5)
        for topic in ("t", "one"):
            log = self.store.log(topic, 0)
            assert log is not None
            log.go_offline(OSError(5, "input/output error"))
        self.pass_seconds(0.5)
        self.assertEqual(self.leader("t"), 0)
        self.assertEqual(self.elect({"t": [0], "one": [0]}, 1), {("t", 0): 83, ("one", 0): 83})
        self.assertEqual(self.elect(None, 1), {("t", 0): 83})
        self.peer.send(election(2, {"t": [0]}, 1))
        self.settle()
        (answer,) = self.peer.answers()
        text = answer.replica_election_results[0].partition_result[0].error_message
        self.assertIn("broker 0 leads t-0, and its log is offline", text)
        self.assertIn("stop broker 0", text)

    def test_another_broker_tells_that_its_log_is_offline(self) -> None:
        """The broker that is asked need not be the leader."""
        self.register(5)
        self.register(6)
        self.make("t", {0: [5, 6], 1: [6, 5]})
        described = {5: [DescribedReplica(0, OFFLINE), DescribedReplica(1, OFFLINE)], 6: [DescribedReplica(1, FOLLOWS)]}

        async def survey(topic: str) -> dict[int, Iterable[DescribedReplica]]:
            return {} if topic != "t" else {**described}

        self.patch(ReplicaOperations, "survey", lambda _, topic: survey(topic))
        self.assertEqual(self.elect({"t": [0, 1]}, 1), {("t", 0): 83, ("t", 1): 84})

    def test_other_brokers_are_asked_where_a_leader_has_nobody_else(self) -> None:
        """For all partitions at once each topic would cost a question. A leader that others can replace gives way."""
        for number in (5, 6):
            self.register(number)
        self.make("t", {0: [5, 6]})
        self.make("u", {0: [5, 0]})
        asked: list[str] = []

        async def survey(topic: str) -> dict[int, Iterable[DescribedReplica]]:
            asked.append(topic)
            return {5: [DescribedReplica(0, OFFLINE)]}

        self.patch(ReplicaOperations, "survey", lambda _, topic: survey(topic))
        self.assertEqual((self.elect(None, 1), asked), ({}, []))
        self.end(6)
        self.assertEqual((self.elect(None, 1), asked), ({("t", 0): 83}, ["t"]))

    def test_a_leader_that_has_died_leads_no_longer(self) -> None:
        """Though the controller has not noted it: an unclean election waits for that, and may not be needed then."""
        self.register(5)
        self.register(6)
        self.make("t", {0: [5, 6]})
        self.broker.controller.stop()
        self.end(5)
        self.assertEqual(self.leader("t"), 5)
        self.assertEqual(self.elect({"t": [0]}), {("t", 0): 80})
        self.assertEqual(self.elect({"t": [0]}, 1), {("t", 0): 7})
        self.peer.send(election(2, {"t": [0]}, 1))
        self.pass_seconds(1)
        self.assertEqual(self.peer.answers(), [])
        self.change("t", leader=6, leader_epoch=1, in_sync=(6,))
        self.pass_seconds(0.5)
        self.assertEqual(self.codes_of(2), {("t", 0): 84})

    def change(self, topic: str, **more: Any) -> None:
        """Change the state of partition 0, as a controller on another broker does."""
        path, session = paths.partition_state(topic, 0), self.sessions[6]
        read = session.get(path)
        self.settle()
        data, stat = self.successResultOf(read)
        session.set(path, evolve(PartitionState.decode(data), **more).encode(), stat.version)
        self.settle()

    def test_what_no_controller_does_in_time(self) -> None:
        """The client is told; one that hangs up leaves no timer."""
        self.register(5)
        self.make("t", {0: [5, 0]})
        self.end(5)
        self.register(5)
        self.broker.controller.stop()
        self.assertEqual(self.elect({"t": [0]}), {("t", 0): 7})
        parts = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
        peer = self.kafka()
        peer.send(ElectLeadersRequest[2](election_type=0, topic_partitions=parts, timeout_ms=1 << 30))
        self.settle()
        waiting = len(self.timers())
        peer.lose()
        self.settle()
        self.assertEqual(waiting - len(self.timers()), 1)

    def test_a_kind_that_there_is_not(self) -> None:
        """The request is refused as a whole."""
        parts = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
        answer = self.ask(self.peer, ElectLeadersRequest[2](election_type=2, topic_partitions=parts, timeout_ms=1000))
        self.assertEqual(answer.error_code, 42)
