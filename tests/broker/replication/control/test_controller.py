"""Tests of the controller: several of them on one tree, of which one changes the states of partitions."""

from __future__ import annotations

import gc
import json
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from logd.broker.replication.control import operator_work
from logd.broker.replication.control.controller import Controller
from logd.broker.replication.control.operator_work import OperatorWork
from logd.broker.topics.directory import TopicDirectory
from logd.coord import paths
from logd.coord.elections import handed_over
from logd.coord.partition_state import PartitionState
from logd.coord.records import SessionState
from logd.coord.registries.brokers import BrokerInfo, watch_brokers
from logd.coord.registries.child_cache import ChildCache
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.operator_requests import (
    Reassignment,
    change_reassignment,
    read_reassignments,
    request_election,
)
from logd.coord.registries.partition_states import PartitionStates, StateChange
from logd.coord.registries.topics import create_topic, decode_entry, watch_topics
from logd.leadership import NO_LEADER
from logd.protocol.requests.replicas.describe_replicas import FOLLOWS, DescribedReplica
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry
from tests.coord.registries.rig import SESSION, RegistryTestCase

#: Seconds after which preferred leaders lead again.
BALANCE = 5.0
TOPIC = "t"


@define(eq=False)
class Member:
    """The parts of replication on one broker: its registration, its view of the tree, and a controller."""

    number: int
    clock: Clock
    tree: InProcessCoordination
    instance: str = field(init=False)
    brokers: ChildCache[BrokerInfo] = field(init=False)
    topics: TopicDirectory = field(init=False, factory=TopicDirectory)
    states: PartitionStates = field(init=False)
    controller: Controller = field(init=False)
    entries: ChildCache[TopicEntry] = field(init=False)
    #: True if it hands no leadership over that it is told to hand over.
    deaf: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.instance = f"disk-{self.number}"
        self.brokers = watch_brokers(self.tree, self.clock, lambda name: self.controller.look())
        self.entries = watch_topics(self.tree, self.clock, self._topic_changed)
        self.states = PartitionStates(self.tree, self.clock)
        self.controller = Controller(
            self.tree,
            self.clock,
            self.number,
            lambda: self.instance,
            self.topics,
            self.states,
            self.live,
            lambda entry: int(entry.settings.get("min.insync.replicas", 1)),
            OperatorWork(self.tree, self.topics, self.states, self.live, self.survey),
            BALANCE,
        )
        self.states.changed = self._state_changed

    def _state_changed(self, topic: str, partition: int) -> None:
        """Hand over at once, as a leader does whose successor has everything."""
        self.controller.look_at(topic, partition)
        known = self.states.get(topic, partition)
        if known is None or known.state.leader != self.number or known.state.successor == NO_LEADER or self.deaf:
            return
        changing = self.states.change(topic, partition, known, handed_over(known.state, known.state.successor))
        Deferred.fromCoroutine(changing).addErrback(lambda _: None)

    async def survey(self, topic: str) -> dict[int, list[DescribedReplica]]:
        """Return the logs of the brokers: the lower its number, the more a broker has."""
        return {
            number: [DescribedReplica(partition, FOLLOWS, end=100 - number) for partition in (0, 1)]
            for number in self.live()
        }

    def live(self) -> dict[int, str]:
        """Return the instances of live brokers."""
        return {info.id: info.instance for info in self.brokers.values.values()}

    def start(self) -> None:
        """Begin to watch, and claim to be the controller."""
        self.brokers.start()
        self.entries.start()
        self.states.start()
        self.controller.start()

    def _topic_changed(self, topic: str) -> None:
        entry = self.entries.values.get(topic)
        if entry is None:
            self.states.forget(topic)
            self.topics.hide(topic)
        else:
            if entry.replicated:
                self.states.follow(topic, entry.uuid, entry.partitions)
            self.topics.show(topic, entry)
        self.controller.look()


class ControllerTestCase(RegistryTestCase):
    """Three brokers, each of which could be the controller, and a replicated topic."""

    def setUp(self) -> None:
        """Start them."""
        super().setUp()
        self.outcome(self.tree.create(paths.BROKER_IDS, makepath=True))
        self.outcome(self.tree.create(paths.BROKER_TOPICS, makepath=True))
        self.members = {number: self.member(number) for number in (1, 2, 3)}
        self.outcome(
            create_topic(
                self.tree,
                TOPIC,
                TopicEntry("uuid", {0: (1, 2, 3), 1: (2, 3, 1)}, replicated=True),
                {0: self.state(1, (1, 2, 3)), 1: self.state(2, (1, 2, 3))},
            )
        )
        self.settle()

    def state(self, leader: int, in_sync: tuple[int, ...], last: tuple[int, ...] = ()) -> PartitionState:
        """Return a state of the disks that the members have."""
        return PartitionState(leader, 0, in_sync, last, {each: f"disk-{each}" for each in (*in_sync, *last)})

    def member(self, number: int) -> Member:
        """Register and start a broker."""
        member = Member(number, self.clock, self.client())
        self.register(member)
        member.start()
        self.settle()
        return member

    def register(self, member: Member) -> None:
        """Write the registration of a broker."""
        info = BrokerInfo(member.number, "h", 1, member.instance)
        self.outcome(member.tree.create(paths.broker(member.number), info.encode(), ephemeral=True))

    def kill(self, number: int) -> Member:
        """Let a broker vanish; its session ends later."""
        member = self.members.pop(number)
        member.tree.link.vanish()
        member.controller.stop()
        return member

    def stored(self, partition: int = 0) -> PartitionState:
        """Return a state as it is in the tree."""
        return PartitionState.decode(self.outcome(self.tree.get(paths.partition_state(TOPIC, partition)))[0])

    def write(self, state: PartitionState, partition: int = 0) -> None:
        """Change a state as its leader would."""
        self.outcome(self.tree.set(paths.partition_state(TOPIC, partition), state.encode()))

    def entry(self) -> TopicEntry:
        """Return the topic's entry."""
        return decode_entry(TOPIC, self.outcome(self.tree.get(paths.topic(TOPIC)))[0])

    def controllers(self) -> list[int]:
        """Return the brokers that believe to be the controller."""
        return [number for number, member in self.members.items() if member.controller.epoch is not None]


class ElectionTests(ControllerTestCase):
    """Leaders are chosen once, by one controller."""

    def test_one_is_the_controller_and_another_follows_it(self) -> None:
        """The node names it; the epoch rises with each."""
        self.assertEqual(self.controllers(), [1])
        value = json.loads(self.outcome(self.tree.get(paths.CONTROLLER))[0])
        self.assertEqual(value, {"broker": 1, "instance": "disk-1"})
        self.kill(1)
        self.pass_time(SESSION + 1)
        self.assertEqual(len(self.controllers()), 1)
        self.assertEqual(self.outcome(self.tree.get(paths.CONTROLLER_EPOCH))[0], b"2")

    def test_a_controller_that_goes_between_two_looks_leaves_no_error(self) -> None:
        """Its node was there at the attempt to make it, and is gone when it is to be watched."""
        other = self.members[2]
        self.assertEqual(self.controllers(), [1])
        exists_and_watch = other.tree.exists_and_watch
        gone = [1]

        def missing(path: str, timeout: float | None = None) -> Any:
            answer, watch = exists_and_watch(path, timeout)
            return (answer.addCallback(lambda stat: None), watch) if gone and gone.pop() else (answer, watch)

        self.patch(other.tree, "exists_and_watch", missing)
        other.controller._session_changed(SessionState.CONNECTED)
        self.pass_time(1)
        self.assertEqual((self.controllers(), gone), ([1], []))
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_dead_leader_is_replaced(self) -> None:
        """Also where the dead one was the controller as well; partitions of others are left alone."""
        self.kill(1)
        self.pass_time(SESSION + 1)
        state = self.stored()
        self.assertEqual((state.leader, state.leader_epoch, state.controller_epoch), (2, 1, 2))
        self.assertEqual(self.stored(1).leader_epoch, 0)

    def test_nobody_leads_until_one_that_may_is_back(self) -> None:
        """A replica that is not in sync does not lead."""
        self.write(self.state(1, (1,)))
        dead = self.kill(1)
        self.pass_time(SESSION + 1)
        self.assertEqual(self.stored().leader, NO_LEADER)
        self.members[1] = self.member(1)
        self.pass_time(1)
        self.assertEqual((self.stored().leader, self.stored().in_sync), (1, (1,)))
        self.assertEqual(dead.instance, "disk-1")

    def test_a_former_controller_changes_nothing(self) -> None:
        """It is paused with a change at hand, and another one comes: the transaction is refused."""
        zombie = self.members[1].controller
        epoch, fence = zombie.epoch, zombie._fence
        zombie.stop()
        self.settle()
        known = self.members[1].states.get(TOPIC, 0)
        assert known is not None
        zombie.epoch = epoch
        zombie._fence = fence
        self.outcome(zombie._write([StateChange((TOPIC, 0), known, evolve(known.state, leader=3))]))
        self.assertEqual(self.stored().leader, 1)
        self.assertIsNone(zombie.epoch)

    def test_a_topic_that_was_made_again_is_not_changed_for_the_former_one(self) -> None:
        """The controller has a change at hand; the state that is there now has the same version."""
        controller = self.members[1].controller
        known = self.members[1].states.get(TOPIC, 0)
        assert known is not None and controller.epoch is not None
        self.outcome(delete_topic(self.tree, TOPIC))
        entry = TopicEntry("another", {0: (1, 2, 3)}, replicated=True)
        self.outcome(create_topic(self.tree, TOPIC, entry, {0: self.state(1, (1, 2, 3))}))
        self.outcome(controller._write([StateChange((TOPIC, 0), known, evolve(known.state, leader=3))]))
        self.assertEqual(self.stored().leader, 1)
        self.assertIsNotNone(controller.epoch)

    def test_the_topics_of_an_earlier_version_are_led_on(self) -> None:
        """They have no node of their uuid; the controller makes it."""
        self.outcome(self.tree.delete(paths.topic_identity(TOPIC, "uuid")))
        self.kill(2)
        self.pass_time(SESSION + 1)
        self.assertEqual(self.stored(1).leader, 3)
        self.outcome(self.tree.delete(paths.topic_identity(TOPIC, "uuid")))
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (1, 3)})))
        self.pass_time(5)
        self.assertEqual(self.entry().partitions[0], (1, 3))

    def test_lost_answers_and_sessions_leave_one_leader(self) -> None:
        """Each connection is cut again and again while brokers die and return."""
        for turn in range(12):
            number = turn % 3 + 1
            member = self.members[number]
            if turn % 4 == 3:
                self.host.expire(member.tree.session_id)
            member.tree.link.delay = lambda: 0.05
            self.clock.callLater(0.12, member.tree.link.cut)
            self.pass_time(SESSION / 2)
            member.tree.link.delay = lambda: 0.0
            self.pass_time(2 * SESSION)
            if self.outcome(self.tree.exists(paths.broker(number))) is None:
                self.register(member)
            self.pass_time(BALANCE + 2)
            self.assertEqual(len(self.controllers()), 1)
            self.assertEqual((self.stored(0).leader, self.stored(1).leader), (1, 2), turn)

    def test_a_state_that_cannot_be_read_keeps_no_other_waiting(self) -> None:
        """It stays as it is, for an operator."""
        self.outcome(self.tree.set(paths.partition_state(TOPIC, 0), b"{}"))
        self.kill(2)
        self.pass_time(SESSION + 1)
        self.assertEqual(self.stored(1).leader, 3)
        self.assertEqual(self.outcome(self.tree.get(paths.partition_state(TOPIC, 0)))[0], b"{}")

    def test_a_new_controller_does_not_take_the_living_for_dead(self) -> None:
        """Its view of live brokers is empty for a moment; then no leader would seem to live."""
        member = Member(4, self.clock, self.client())
        self.register(member)
        member.brokers.start()
        self.settle()
        seen = dict(member.brokers.values)
        member.brokers.values.clear()
        member.entries.start()
        member.states.start()
        for each in self.members.values():
            each.controller.stop()
        member.controller.start()
        self.pass_time(1)
        self.assertIsNotNone(member.controller.epoch)
        self.assertEqual((self.stored().leader, self.stored().leader_epoch), (1, 0))
        member.brokers.values.update(seen)
        self.outcome(self.tree.delete(paths.BROKER_IDS + "/1"))
        self.pass_time(1)
        self.assertEqual(self.stored().leader, 2)


class RequestTests(ControllerTestCase):
    """The requests of operators."""

    def test_an_unclean_election(self) -> None:
        """Only the partitions asked for, only where nobody leads; the request is gone afterwards."""
        self.write(self.state(1, (1,)))
        self.kill(1)
        self.pass_time(SESSION + 1)
        self.assertEqual(self.stored().leader, NO_LEADER)
        self.outcome(request_election(self.tree, TOPIC, "uuid", [0, 1, 7]))
        self.pass_time(2)
        self.assertEqual((self.stored().leader, self.stored().in_sync), (2, (2,)))
        self.assertEqual(self.stored(1).leader_epoch, 0)
        self.assertIsNone(self.outcome(self.tree.exists(paths.election(TOPIC))))

    def test_requests_about_another_topic_of_that_name_are_dropped(self) -> None:
        """The topic was deleted and made again meanwhile."""
        self.write(evolve(self.state(1, (1,)), leader=NO_LEADER, instances={1: "another"}))
        self.outcome(request_election(self.tree, TOPIC, "former", [0]))
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("former", {0: (3,)})))
        self.pass_time(2)
        self.assertEqual((self.stored().leader, self.entry().partitions[0]), (NO_LEADER, (1, 2, 3)))
        for path in (paths.election(TOPIC), paths.reassignment(TOPIC)):
            self.assertIsNone(self.outcome(self.tree.exists(path)))

    def test_a_value_that_is_no_request_harms_nothing(self) -> None:
        """Other topics' requests are carried out."""
        for parent in (paths.ELECTIONS, paths.REASSIGNMENTS, paths.DRAINING):
            self.outcome(self.tree.create(f"{parent}/a", b"\xff{", makepath=True))
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (2, 1, 3)})))
        self.pass_time(2)
        self.assertEqual(self.entry().partitions[0], (2, 1, 3))

    def test_a_partition_moves_to_another_broker(self) -> None:
        """It is added, has to be in sync, and only then does another one go."""
        self.members[4] = self.member(4)
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (4, 2), 1: (2, 3, 1)})))
        self.pass_time(3)
        self.assertEqual(self.entry().partitions[0], (1, 2, 3, 4))
        self.assertEqual((self.stored().in_sync, self.stored().leader), ((1, 2, 3), 1))
        self.assertEqual(list(self.outcome(read_reassignments(self.tree))), [TOPIC])
        self.write(evolve(self.state(1, (1, 2, 3, 4)), leader_epoch=self.stored().leader_epoch))
        self.pass_time(3)
        state = self.stored()
        self.assertEqual((self.entry().partitions[0], state.in_sync, state.leader), ((4, 2), (2, 4), 4))
        self.assertEqual(sorted(state.instances), [2, 4])
        self.assertEqual(self.outcome(read_reassignments(self.tree)), {})

    def test_partitions_that_wait_for_a_dead_broker(self) -> None:
        """They copy nothing, so they do not count among those that may get new replicas at a time."""
        self.patch(operator_work, "ADDED_AT_ONCE", 1)
        for number in (4, 5):
            self.members[number] = self.member(number)
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (1, 4), 1: (2, 5)})))
        self.pass_time(3)
        self.assertEqual(self.entry().partitions, {0: (1, 2, 3, 4), 1: (2, 3, 1)})
        self.kill(4)
        self.pass_time(SESSION + 3)
        self.assertEqual(self.entry().partitions, {0: (1, 2, 3, 4), 1: (2, 3, 1, 5)})

    def test_a_reassignment_ends_where_it_is_cancelled(self) -> None:
        """Replicas that were added stay."""
        self.members[4] = self.member(4)
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (4,)})))
        self.pass_time(2)
        self.assertIn(TOPIC, self.outcome(read_reassignments(self.tree)))
        self.outcome(change_reassignment(self.tree, TOPIC, lambda _: None))
        self.write(self.state(1, (1, 2, 3, 4)))
        self.pass_time(3)
        self.assertEqual(self.entry().partitions[0], (1, 2, 3, 4))

    def test_a_topic_of_one_replica_gets_more(self) -> None:
        """All its partitions have states from then on."""
        self.outcome(create_topic(self.tree, "old", TopicEntry("old-uuid", {0: (1,), 1: (3,)})))
        self.outcome(change_reassignment(self.tree, "old", lambda _: Reassignment("old-uuid", {0: (1, 2)})))
        self.pass_time(3)
        entry = decode_entry("old", self.outcome(self.tree.get(paths.topic("old")))[0])
        self.assertEqual((entry.replicated, dict(entry.partitions)), (True, {0: (1, 2), 1: (3,)}))
        found = [self.outcome(self.tree.get(paths.partition_state("old", number)))[0] for number in (0, 1)]
        self.assertEqual([PartitionState.decode(each).in_sync for each in found], [(1,), (3,)])
