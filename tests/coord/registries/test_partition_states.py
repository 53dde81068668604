"""Tests of the states of partitions as a broker sees them while their nodes are removed and made again."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from logd.coord import paths
from logd.coord.elections import lost_with_the_tree
from logd.coord.partition_state import PartitionState
from logd.coord.registries.deleted_topics import delete_topic, removed_by
from logd.coord.registries.partition_states import PartitionStates
from logd.coord.registries.topics import create_topic
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase

STATE = PartitionState(1, 5, (1, 2), (), {1: "disk-1", 2: "disk-2"})
ENTRY = TopicEntry("first", {0: (1, 2)}, replicated=True)


class VisitedSet(set[int]):
    """A set that counts the numbers that are looked at one after the other."""

    visits = 0

    def __iter__(self) -> Iterator[int]:
        for each in super().__iter__():
            self.visits += 1
            yield each


class RemadeStateTests(RegistryTestCase):
    """A broker that follows a partition whose state was changed twice, and another client of the tree."""

    def setUp(self) -> None:
        """Create the topic, and change its state."""
        super().setUp()
        self.other = self.client()
        self.outcome(create_topic(self.other, "t", ENTRY, {0: STATE}))
        self.states = PartitionStates(self.tree, self.clock)
        self.states.start()
        self.addCleanup(self.states.stop)
        self.states.follow("t", "first", [0])
        self.settle()
        for epoch in (6, 7):
            known = self.states.get("t", 0)
            assert known is not None
            self.outcome(self.states.change("t", 0, known, evolve(STATE, leader_epoch=epoch)))

    def make_again(self) -> None:
        """Remove the topic, and make it from the logs of its brokers, as after the loss of a tree."""
        self.outcome(delete_topic(self.other, "t"))
        for broker in (1, 2):
            self.outcome(removed_by(self.other, "first", broker))
        self.outcome(create_topic(self.other, "t", ENTRY, {0: lost_with_the_tree(0.0)}))

    def assert_follows(self) -> None:
        """Check that the broker knows the state in the tree, and what becomes of it."""
        known = self.states.get("t", 0)
        assert known is not None
        self.assertEqual((known.state, known.version), (lost_with_the_tree(0.0), 0))
        elected = evolve(STATE, leader=2, leader_epoch=1)
        self.outcome(self.other.set(paths.partition_state("t", 0), elected.encode()))
        self.pass_time(1)
        known = self.states.get("t", 0)
        assert known is not None
        self.assertEqual((known.state, known.version), (elected, 1))

    def test_a_state_that_was_made_again_while_the_broker_was_away(self) -> None:
        """Its node begins with version 0, below that of the former one, which is forgotten."""
        self.tree.link.reachable = False
        self.tree.link.cut()
        self.make_again()
        self.tree.link.reachable = True
        self.pass_time(2)
        self.assert_follows()

    def test_a_state_that_was_made_again_before_the_broker_looked(self) -> None:
        """The event tells of the end of the former node, and the look after it finds the next one."""
        self.tree.link.delay = lambda: 1.0
        self.make_again()
        self.tree.link.delay = lambda: 0.0
        self.pass_time(5)
        self.assert_follows()


class ManyPartitionsTests(RegistryTestCase):
    """A topic of many partitions."""

    def test_the_states_are_looked_through_a_few_times_alone(self) -> None:
        """A caller that waits for all of them does not cost a look at all of them for each that is read."""
        count = 500
        entry = TopicEntry("first", dict.fromkeys(range(count), (1, 2)), replicated=True)
        self.outcome(create_topic(self.tree, "t", entry, dict.fromkeys(range(count), STATE)))
        states = PartitionStates(self.tree, self.clock)
        self.addCleanup(states.stop)
        states.follow("t", "first", range(count))
        complete = states.when_complete("t")
        partitions = states._topics["t"] = VisitedSet(range(count))
        states.start()
        self.settle()
        self.successResultOf(complete)
        self.assertLess(partitions.visits, 10 * count)
