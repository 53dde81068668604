"""Tests of changes of partitions' states while the topic is deleted, and made again."""

from __future__ import annotations

from attrs import evolve
from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.partition_state import PartitionState
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.partition_states import KnownState, PartitionStates
from logd.coord.registries.topics import create_topic, make_identity
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase

STATE = PartitionState(1, 0, (1, 2), (), {1: "disk-1", 2: "disk-2"})
SHRUNK = evolve(STATE, in_sync=(1,), instances={1: "disk-1"})


class IdentityTests(RegistryTestCase):
    """A broker that knows the state of a topic, and another one that deletes the topic and makes it again."""

    def setUp(self) -> None:
        """Create the topic, and read its state."""
        super().setUp()
        self.other = self.client()
        self.create("first")
        self.states = PartitionStates(self.tree, self.clock)
        self.states.start()
        self.addCleanup(self.states.stop)
        self.states.follow("t", "first", [0])
        self.settle()

    def create(self, uuid: str) -> None:
        """Create a topic of one partition."""
        entry = TopicEntry(uuid, {0: (1, 2)}, replicated=True)
        self.outcome(create_topic(self.other, "t", entry, {0: STATE}))

    def known(self) -> KnownState:
        """Return the state as the broker knows it."""
        known = self.states.get("t", 0)
        assert known is not None
        return known

    def stored(self) -> PartitionState:
        """Return the state in the tree."""
        return PartitionState.decode(self.outcome(self.other.get(paths.partition_state("t", 0)))[0])

    def test_a_change_of_the_topic_that_is(self) -> None:
        """The new state is known at once, with its version."""
        changed = self.outcome(self.states.change("t", 0, self.known(), SHRUNK))
        self.assertEqual((changed, self.known(), self.stored()), (KnownState(SHRUNK, 1, "first"), changed, SHRUNK))
        self.settle()
        self.assertEqual(self.known(), changed)

    def test_a_change_for_a_topic_that_was_made_again(self) -> None:
        """Its state has the same version again, and is not changed by whoever knows the former topic."""
        known = self.known()
        self.outcome(delete_topic(self.other, "t"))
        self.create("second")
        self.assertIsInstance(self.error(self.states.change("t", 0, known, SHRUNK)), NoNode)
        self.assertEqual(self.stored(), STATE)

    def test_a_state_that_is_read_for_the_former_topic(self) -> None:
        """A state that is read during the exchange is one of the topic that was followed when the read began."""
        self.outcome(self.states.change("t", 0, self.known(), SHRUNK))
        self.states.follow("t", "second", [0])
        self.assertIsNone(self.states.get("t", 0))
        self.states.took("t", 0, KnownState(SHRUNK, 5, "first"))
        self.assertIsNone(self.states.get("t", 0))
        self.settle()
        self.assertEqual(self.known().uuid, "second")

    def test_a_read_under_way_is_repeated(self) -> None:
        """Its answer may be about either topic."""
        self.tree.link.delay = lambda: 0.3
        self.states.follow("u", "first", [0])
        entry = TopicEntry("second", {0: (1, 2)}, replicated=True)
        self.outcome(create_topic(self.other, "u", entry, {0: STATE}))
        self.states.follow("u", "second", [0])
        self.pass_time(0.8)
        self.assertIsNone(self.states.get("u", 0))
        self.pass_time(1)
        self.assertEqual(self.states.get("u", 0), KnownState(STATE, 0, "second"))

    def test_a_read_that_finds_no_state_of_the_former_topic(self) -> None:
        """That says nothing of the state of the next one, which is read at once."""
        self.tree.link.delay = lambda: 0.1
        self.states.follow("u", "first", [0])
        for _ in range(6):  # until the tree has answered
            self.clock.advance(0.025)
        entry = TopicEntry("second", {0: (1, 2)}, replicated=True)
        self.outcome(create_topic(self.other, "u", entry, {0: STATE}))
        self.states.follow("u", "second", [0])
        complete = self.states.when_complete("u")
        self.pass_time(0.1)
        self.assertNoResult(complete)
        self.pass_time(0.3)
        self.successResultOf(complete)
        self.assertEqual(self.states.get("u", 0), KnownState(STATE, 0, "second"))

    def test_a_topic_of_an_earlier_version(self) -> None:
        """Its node is made with the first change; that of a deleted topic is not."""
        self.outcome(self.other.delete(paths.topic_identity("t", "first")))
        changed = self.outcome(self.states.change("t", 0, self.known(), SHRUNK))
        self.assertEqual((changed.version, self.stored()), (1, SHRUNK))
        self.assertIsNotNone(self.outcome(self.other.exists(paths.topic_identity("t", "first"))))
        self.assertFalse(self.outcome(make_identity(self.tree, "t", "another")))
        self.assertFalse(self.outcome(make_identity(self.tree, "unknown", "first")))

    def test_many_partitions_of_a_topic_of_an_earlier_version(self) -> None:
        """Changed at the same time, all of them find the node that one has made."""
        entry = TopicEntry("first", dict.fromkeys(range(3), (1, 2)), replicated=True)
        self.outcome(create_topic(self.other, "u", entry, dict.fromkeys(entry.partitions, STATE)))
        self.outcome(self.other.delete(paths.topic_identity("u", "first")))
        self.states.follow("u", "first", [0, 1, 2])
        self.settle()
        changing = []
        for number in entry.partitions:
            known = self.states.get("u", number)
            assert known is not None
            changing.append(Deferred.fromCoroutine(self.states.change("u", number, known, SHRUNK)))
        self.settle()
        for each in changing:
            self.assertEqual(self.successResultOf(each), KnownState(SHRUNK, 1, "first"))
        self.assertEqual(self.outcome(self.other.get_children(paths.topic("u"))), ["partitions"])

    def test_a_topic_made_again_while_its_node_is_made(self) -> None:
        """The node of a topic is not made for the next one, whose states would be changed by who knows the former."""
        self.outcome(self.other.delete(paths.topic_identity("t", "first")))
        self.tree.link.delay = lambda: 0.05
        making = Deferred.fromCoroutine(make_identity(self.tree, "t", "first"))
        for _ in range(8):
            self.clock.advance(0.025)
        self.outcome(delete_topic(self.other, "t"))
        self.create("second")
        self.pass_time(1)
        self.assertFalse(self.successResultOf(making))
        found = self.outcome(self.other.get_children(f"{paths.topic('t')}/partitions"))
        self.assertEqual(sorted(found), ["0", "topic-second"])
