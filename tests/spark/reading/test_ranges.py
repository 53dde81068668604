"""Tests of cutting ranges for tasks, and of the size of a micro-batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError
from logd.spark.blocking.progress import Progress, admit
from logd.spark.blocking.range_planning import PartitionName
from logd.spark.blocking.ranges import IdRange, split_ranges

#: Sizes of the entries of some partitions.
logs = st.lists(st.lists(st.integers(9, 500), max_size=30), min_size=1, max_size=4)


class Boundaries:
    """The entries of some logs, as brokers describe them to split_ranges and admit."""

    def __init__(self, sizes: Sequence[Sequence[int]]) -> None:
        self.bounds = []
        for each in sizes:
            bounds = [0]
            for size in each:
                bounds.append(bounds[-1] + size)
            self.bounds.append(bounds)
        self.names = [PartitionName("t", "u", number) for number in range(len(sizes))]
        self.ends = {name: bounds[-1] for name, bounds in zip(self.names, self.bounds, strict=True)}

    def find(self, topic: str, partition: int, positions: Sequence[int]) -> list[int]:
        """Return the boundaries at or before the positions."""
        bounds = self.bounds[partition]
        return [bounds[bisect_right(bounds, position) - 1] for position in positions]

    def boundary(self, name: PartitionName, position: int) -> int:
        """Return the boundary at or before a position."""
        return self.find(name.topic, name.partition, [position])[0]

    def entry_end(self, name: PartitionName, position: int) -> int:
        """Return the boundary that follows one."""
        bounds = self.bounds[name.partition]
        return bounds[bounds.index(position) + 1]


class SplitTests(SynchronousTestCase):
    """``split_ranges``."""

    @given(logs, st.integers(1, 3000), st.integers(1, 40))
    def test_pieces_make_up_the_ranges_again(self, sizes: list[list[int]], max_bytes: int, at_least: int) -> None:
        """Cuts are at entries, and no piece exceeds its bound by more than an entry."""
        known = Boundaries(sizes)
        whole = [IdRange("t", "u", name.partition, 0, end) for name, end in known.ends.items()]
        pieces = split_ranges(whole, known.find, max_bytes=max_bytes, at_least=at_least)
        for each in whole:
            mine = [piece for piece in pieces if piece.partition == each.partition]
            if each.bytes:
                self.assertEqual([mine[0].start, mine[-1].end], [0, each.end])
                self.assertEqual([piece.end for piece in mine[:-1]], [piece.start for piece in mine[1:]])
            for piece in mine:
                self.assertGreater(piece.bytes, 0)
                self.assertIn(piece.start, known.bounds[each.partition])
                self.assertLess(piece.bytes, max_bytes + 500)

    def test_one_large_partition_makes_several_tasks(self) -> None:
        """A topic of few partitions would leave a cluster idle otherwise."""
        known = Boundaries([[100] * 100])
        pieces = split_ranges([IdRange("t", "u", 0, 0, 10_000)], known.find, at_least=4)
        self.assertEqual([piece.bytes for piece in pieces], [2500] * 4)


class AdmitTests(SynchronousTestCase):
    """``admit``."""

    @given(logs, st.integers(1, 4000))
    def test_a_micro_batch_stays_within_its_budget(self, sizes: list[list[int]], budget: int) -> None:
        """One entry beyond it is allowed, so that the stream never stands still."""
        known = Boundaries(sizes)
        here = dict.fromkeys(known.names, 0)
        batches = 0
        while here != known.ends:
            there = admit(here, known.ends, budget, known)
            taken = {name: there[name] - here[name] for name in here}
            self.assertGreater(sum(taken.values()), 0)
            for name, position in there.items():
                self.assertIn(position, known.bounds[name.partition])
                self.assertGreaterEqual(taken[name], 0)
            if sum(taken.values()) > budget:
                (name,) = [name for name in taken if taken[name]]
                self.assertEqual(there[name], known.entry_end(name, here[name]))
            here = there
            batches += 1
        # No more of them than if each took half of its budget, or a single entry.
        self.assertLessEqual(batches, 1 + max(2 * sum(known.ends.values()) // budget + 1, sum(map(len, sizes))))

    def test_partitions_share_a_budget_in_proportion(self) -> None:
        """One that is far behind gets the most."""
        known = Boundaries([[10] * 300, [10] * 100])
        there = admit(dict.fromkeys(known.names, 0), known.ends, 400, known)
        self.assertEqual(list(there.values()), [300, 100])

    def test_all_is_taken_without_a_budget(self) -> None:
        """A log that became shorter takes nothing back."""
        known = Boundaries([[10] * 3, [10]])
        starts = dict(zip(known.names, (10, 40), strict=True))
        self.assertEqual(list(admit(starts, known.ends, None, known).values()), [30, 40])


class ProgressTests(SynchronousTestCase):
    """``Progress``, the offsets in a stream's checkpoint."""

    @given(
        st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), st.integers(0, 1 << 62)), st.booleans()
    )
    def test_progress_comes_back_as_it_was(self, positions: dict[tuple[str, int], int], late: bool) -> None:
        """Equal offsets are equal text, in whatever order they were found: Spark compares the text."""
        places = {PartitionName(t, f"uuid-{t}", n): at for (t, n), at in positions.items()}
        began = {name: at // 2 for name, at in places.items() if late and at % 3 == 0}
        progress = Progress(places, began)
        self.assertEqual(Progress.from_json(progress.to_json()), progress)
        turned = Progress(dict(reversed(list(places.items()))), dict(reversed(list(began.items()))))
        self.assertEqual(str(turned.to_json()), str(progress.to_json()))

    def test_foreign_progress_is_refused(self) -> None:
        """The JSON may be another source's, or a later release's."""
        foreign: list[Any] = [{"t": {"0": 5}}, {"version": 2, "topics": {}}, {"version": 1, "topics": {"t": 5}}, []]
        foreign += [{"version": 1, "topics": {"t": {"uuid": "u"}}}]
        for value in foreign:
            self.assertRaises(ConfigurationError, Progress.from_json, value)
