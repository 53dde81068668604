"""Tests of logd.clientcore.partition_numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.partitioner import RandomPartitioner
from logd.clientcore.partition_numbers import in_words, is_among


class CountingNumbers(Sequence[int]):
    """Ascending numbers that count how often one of them is read."""

    def __init__(self, count: int) -> None:
        self.size = count
        self.reads = 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        self.reads += 1
        return range(self.size)[at]


class PartitionNumberTests(SynchronousTestCase):
    """Functions of ascending partition numbers."""

    @given(st.integers(-2, 30), st.sets(st.integers(0, 25)))
    def test_membership_is_that_of_a_set(self, number: int, numbers: set[int]) -> None:
        """The search by halves must not miss the first or last number."""
        self.assertEqual(is_among(number, sorted(numbers)), number in numbers)

    def test_many_numbers_are_shown_as_a_range(self) -> None:
        """A list of five thousand would fill the log; a few are listed."""
        self.assertEqual(in_words((0, 2)), "[0, 2]")
        self.assertEqual(in_words(range(5000)), "0 to 4999")
        self.assertEqual(in_words([*range(20), 30]), "0 to 30, 21 of them")

    def test_a_send_reads_few_of_many_numbers(self) -> None:
        """Looking at 10,000 partitions for each send would be most of its cost."""
        partitions = CountingNumbers(10_000)
        partitioner = RandomPartitioner()
        for _ in range(10):
            partitioner.choose("t", None, partitions)
        self.assertLess(partitions.reads, 200)
