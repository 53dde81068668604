"""Tests of the stored ends' registry: values that are read and refused, nodes that are made, changed and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists
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
from logd.coord.registries.topics import brokers_to_remove, create_topic, delete_topic, removed_by
from logd.log.recovery.lost_log_replacement import beginning_after
from logd.topic import TopicEntry
from tests.coord.registries.trees import TreeTestCase

ENDS = StoredEnds("an-instance", {0: 0, 3: 1 << 40})
#: Bytes that may be appended to a log above its limit before producers wait: far more than unflushed.bytes.
LATE = 1 << 33


class ValueTests(TreeTestCase):
    """What a node holds."""

    def test_both_ways(self) -> None:
        """The value of a node is read as it was written."""
        self.assertEqual(StoredEnds.decode("/a", ENDS.encode()), ENDS)

    def test_others(self) -> None:
        """Partitions of another data directory are named; without any the value is as it was before there were such."""
        value = StoredEnds("mine", {0: 1, 1: 2}, {1: "theirs"})
        self.assertEqual(StoredEnds.decode("/a", value.encode()), value)
        self.assertEqual([value.instance_of(number) for number in (0, 1)], ["mine", "theirs"])
        self.assertNotIn(b"others", ENDS.encode())

    def test_largest(self) -> None:
        """Behind the largest end that is read there is room for one more beginning, and behind no larger one."""
        largest = StoredEnds("i", {0: LARGEST_END})
        self.assertEqual(StoredEnds.decode("/a", largest.encode()), largest)
        self.assertLess(beginning_after(LARGEST_END), 1 << 63)
        self.assertRaises(ValueError, StoredEnds.decode, "/a", StoredEnds("i", {0: LARGEST_END + 1}).encode())

    def test_refused(self) -> None:
        """Anything else is refused by a ValueError that names the node."""
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


class LimitTests(TreeTestCase):
    """How far logs grow, and where they begin after a loss."""

    @given(st.integers(0, 1 << 60))
    def test_beginning(self, stored: int) -> None:
        """A log never reaches the place where it would begin after a loss, even if it overshoots its limit."""
        self.assertLess(growth_limit(stored) + LATE, stored + GROWTH)
        self.assertLess(growth_limit(stored) + LATE, beginning_after(stored))
        self.assertGreater(growth_limit(stored), stored)

    @given(st.integers(0, 1 << 60), st.lists(st.floats(0, 1), min_size=1, max_size=5))
    def test_unknown(self, stored: int, lives: list[float]) -> None:
        """However often a broker starts without the tree, a log stays below the limit that its stored end gives."""
        end = stored + int(lives[0] * (growth_limit(stored) + LATE - stored))
        for life in lives[1:]:
            end += int(life * max(0, growth_limit_unknown(end) + LATE - end))
            self.assertLessEqual(end, growth_limit(stored) + LATE)


class NodeTests(TreeTestCase):
    """One node for a topic and broker."""

    def test_write(self) -> None:
        """A node is made once and then changed at its version; each broker has its own."""
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

    def test_bad_node(self) -> None:
        """A node that cannot be read is a ValueError that names it."""
        self.outcome(self.tree.create(paths.stored_ends("u", 1), b"nonsense", makepath=True))
        self.assertIn("/brokers/stored/u/1", str(self.error(read_ends(self.tree, "u", 1))))

    def test_removed(self) -> None:
        """The last broker that removes a deleted topic removes the stored ends of all with the note."""
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
