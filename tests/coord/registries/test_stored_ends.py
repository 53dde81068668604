"""Tests of the stored ends' registry: values that are decoded and refused, nodes that are made, changed and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists
from logd.coord.registries.deleted_topics import brokers_to_remove, delete_topic, removed_by
from logd.coord.registries.stored_ends import (
    GROWTH,
    LARGEST_END,
    StoredEnds,
    growth_limit,
    growth_limit_unknown,
    read_all_ends,
    read_ends,
    write_ends,
)
from logd.coord.registries.topics import create_topic
from logd.log.recovery.lost_log_replacement import beginning_after
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase

ENDS = StoredEnds("an-instance", {0: 0, 3: 1 << 40})
#: Bytes that may be appended above a log's limit before producers wait: far more than unflushed.bytes.
LATE = 1 << 33


class StoredEndsTests(RegistryTestCase):
    """The value of a node."""

    def test_a_value_is_decoded_as_it_was_encoded(self) -> None:
        """It has the instance, and an end of each partition."""
        self.assertEqual(StoredEnds.decode("/a", ENDS.encode()), ENDS)

    def test_a_value_names_partitions_that_are_given_up(self) -> None:
        """A member that earlier releases pass over, and that has to be a list of partitions."""
        value = StoredEnds("mine", {0: 1, 1: 2}, given_up=frozenset((0, 1)))
        self.assertEqual(StoredEnds.decode("/a", value.encode()), value)
        self.assertNotIn(b"given_up", StoredEnds("mine", {0: 1}).encode())
        for wrong in (b"5", b'["a"]', b"[-1]", b"[true]"):
            with self.assertRaises(ValueError):
                StoredEnds.decode("/a", b'{"instance": "i", "ends": {}, "given_up": %s}' % wrong)

    def test_a_value_names_partitions_of_other_data_directories(self) -> None:
        """A value without any looks as earlier releases wrote it."""
        value = StoredEnds("mine", {0: 1, 1: 2}, {1: "theirs"})
        self.assertEqual(StoredEnds.decode("/a", value.encode()), value)
        self.assertEqual([value.instance_of(number) for number in (0, 1)], ["mine", "theirs"])
        self.assertNotIn(b"others", ENDS.encode())

    def test_the_largest_end_leaves_room_for_one_beginning(self) -> None:
        """A larger end is refused."""
        largest = StoredEnds("i", {0: LARGEST_END})
        self.assertEqual(StoredEnds.decode("/a", largest.encode()), largest)
        self.assertLess(beginning_after(LARGEST_END), 1 << 63)
        self.assertRaises(ValueError, StoredEnds.decode, "/a", StoredEnds("i", {0: LARGEST_END + 1}).encode())

    def test_any_other_value_is_refused_by_its_node(self) -> None:
        """The ValueError names the node for the operator."""
        for data in (
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b'{"instance": 1, "ends": {}}',
            b'{"instance": "i", "ends": []}',
            b'{"instance": "i", "ends": {"x": 1}}',
            b'{"instance": "i", "ends": {"0": -1}}',
            b'{"instance": "i", "ends": {"0": 1.5}}',
            b'{"instance": "i", "ends": {"0": true}}',
            b'{"instance": "i", "ends": {"0": 1e999}}',
            b'{"instance": "i", "ends": {"0": 9223372036854775808}}',
            b'{"instance": "i", "ends": {"-1": 5}}',
            b'{"instance": "i", "ends": {}, "others": {"0": 5}}',
            b'{"instance": "i", "ends": {}, "others": []}',
            b"[" * 100_000,
        ):
            error = self.assertRaises(ValueError, StoredEnds.decode, "/brokers/stored/u/1", data)
            self.assertIn("/brokers/stored/u/1", str(error))


class GrowthLimitTests(RegistryTestCase):
    """The limit of a log's growth, and its beginning after a loss."""

    @given(st.integers(0, 1 << 60))
    def test_a_log_never_reaches_its_beginning_after_a_loss(self, stored: int) -> None:
        """No id is given twice, although a log may overshoot its limit."""
        self.assertLess(growth_limit(stored) + LATE, stored + GROWTH)
        self.assertLess(growth_limit(stored) + LATE, beginning_after(stored))
        self.assertGreater(growth_limit(stored), stored)

    @given(st.integers(0, 1 << 60), st.lists(st.floats(0, 1), min_size=1, max_size=5))
    def test_starts_without_the_tree_stay_below_the_limit(self, stored: int, lives: list[float]) -> None:
        """A broker may start so any number of times: the limit is that of the stored end."""
        end = stored + int(lives[0] * (growth_limit(stored) + LATE - stored))
        for life in lives[1:]:
            end += int(life * max(0, growth_limit_unknown(end) + LATE - end))
            self.assertLessEqual(end, growth_limit(stored) + LATE)


class NodeTests(RegistryTestCase):
    """One node for each topic and broker."""

    def test_a_node_is_made_once_and_changed_at_its_version(self) -> None:
        """Each broker has its own, and a second writer is told that it lost."""
        self.assertIsNone(self.outcome(read_ends(self.tree, "u", 1)))
        self.assertEqual(self.outcome(read_all_ends(self.tree, "u")), {})
        version = self.outcome(write_ends(self.tree, "u", 1, ENDS, None))
        self.assertEqual(self.outcome(read_ends(self.tree, "u", 1)), (ENDS, version))
        self.assertIsInstance(self.error(write_ends(self.tree, "u", 1, ENDS, None)), NodeExists)
        other = StoredEnds("another", {1: 5})
        self.outcome(write_ends(self.tree, "u", 2, other, None))
        self.outcome(write_ends(self.tree, "u", 1, StoredEnds("an-instance", {0: 7}), version))
        self.assertIsInstance(self.error(write_ends(self.tree, "u", 1, ENDS, version)), BadVersion)
        ends = {1: StoredEnds("an-instance", {0: 7}), 2: other}
        self.assertEqual(self.outcome(read_all_ends(self.tree, "u")), ends)

    def test_a_node_that_cannot_be_decoded_is_named(self) -> None:
        """The ValueError tells an operator which node to look at."""
        self.outcome(self.tree.create(paths.stored_ends("u", 1), b"nonsense", makepath=True))
        self.assertIn("/brokers/stored/u/1", str(self.error(read_ends(self.tree, "u", 1))))

    def test_the_last_broker_removes_the_stored_ends(self) -> None:
        """It removes those of all brokers, with the note of the deleted topic."""
        self.outcome(create_topic(self.tree, "t", TopicEntry("u", {0: (1,), 1: (2,)})))
        for broker in (1, 2):
            self.outcome(write_ends(self.tree, "u", broker, ENDS, None))
        self.outcome(delete_topic(self.tree, "t"))
        self.outcome(removed_by(self.tree, "u", 1))
        self.assertEqual(set(self.outcome(read_all_ends(self.tree, "u"))), {1, 2})
        self.outcome(removed_by(self.tree, "u", 2))
        self.assertEqual(self.outcome(read_all_ends(self.tree, "u")), {})
        self.assertIsNone(self.outcome(self.tree.exists(paths.stored_topic("u"))))
        self.assertIsNone(self.outcome(brokers_to_remove(self.tree, "u")))
