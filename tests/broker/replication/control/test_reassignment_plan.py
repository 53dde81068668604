"""Tests of the plans of reassignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.control.reassignment_plan import plan_reassignment


def copies(before: Mapping[int, tuple[int, ...]], after: Mapping[int, tuple[int, ...]]) -> int:
    """Return the number of replicas that have to be copied."""
    return sum(len(set(after[number]) - set(before[number])) for number in before)


class PlanTests(SynchronousTestCase):
    """Plans for topics on a few brokers."""

    def test_a_topic_gets_replicas(self) -> None:
        """Those that are there stay, and go on leading; the new ones are spread evenly."""
        before = {0: (1,), 1: (2,), 2: (3,)}
        after = plan_reassignment(before, [1, 2, 3], 2, {})
        self.assertEqual({number: each[0] for number, each in after.items()}, {0: 1, 1: 2, 2: 3})
        self.assertEqual(Counter(each for replicas in after.values() for each in replicas), {1: 2, 2: 2, 3: 2})
        self.assertEqual(copies(before, after), 3)

    def test_a_broker_is_emptied(self) -> None:
        """Only what it has is copied."""
        before = {number: tuple((number + step) % 4 for step in range(3)) for number in range(8)}
        after = plan_reassignment(before, [1, 2, 3], 0, {})
        self.assertNotIn(0, {each for replicas in after.values() for each in replicas})
        self.assertEqual(copies(before, after), 6)
        self.assertEqual(sorted(Counter(each[0] for each in after.values()).values()), [2, 3, 3])

    def test_a_new_broker_gets_its_share(self) -> None:
        """No more than that is copied."""
        before = {number: (number % 3, (number + 1) % 3) for number in range(6)}
        after = plan_reassignment(before, [0, 1, 2, 3], 0, {})
        load = Counter(each for replicas in after.values() for each in replicas)
        self.assertEqual(sorted(load.values()), [3, 3, 3, 3])
        self.assertEqual(copies(before, after), 3)
        self.assertLessEqual(max(Counter(each[0] for each in after.values()).values()), 2)

    def test_what_is_well_placed_stays(self) -> None:
        """Nothing changes, not even the order."""
        before = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
        self.assertEqual(plan_reassignment(before, [1, 2, 3], 3, {}), before)

    def test_fewer_replicas(self) -> None:
        """The last ones go, unless that leaves a broker more than its share."""
        after = plan_reassignment({0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, [1, 2, 3], 2, {})
        self.assertEqual(after, {0: (1, 2), 1: (2, 3), 2: (3, 1)})

    def test_racks_are_spread(self) -> None:
        """The second replica is in the other rack."""
        racks = {1: "a", 2: "a", 3: "b", 4: "b"}
        after = plan_reassignment({0: (1,), 1: (3,)}, [1, 2, 3, 4], 2, racks)
        for replicas in after.values():
            self.assertEqual(len({racks[each] for each in replicas}), 2)
