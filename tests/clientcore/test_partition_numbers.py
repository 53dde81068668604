"""Tests of logd.clientcore.partition_numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.partitioner import RandomPartitioner
from logd.clientcore.partition_numbers import in_words, is_among


class Looks(Sequence[int]):
    """Numbers that count how often one of them is looked at."""

    def __init__(self, count: int) -> None:
        self.size = count
        self.looks = 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return range(self.size)[at]


class NumbersTests(SynchronousTestCase):
    """Ascending numbers."""

    @given(st.integers(-2, 30), st.sets(st.integers(0, 25)))
    def test_is_among(self, number: int, numbers: set[int]) -> None:
        """The answer is that of a set."""
        self.assertEqual(is_among(number, sorted(numbers)), number in numbers)

    def test_in_words(self) -> None:
        """A few are listed; of many it is said where they begin and end."""
        self.assertEqual(in_words((0, 2)), "[0, 2]")
        self.assertEqual(in_words(range(5000)), "0 to 4999")
        self.assertEqual(in_words([*range(20), 30]), "0 to 30, 21 of them")

    def test_partitioner_with_many(self) -> None:
        """A send to a topic of 10,000 partitions looks at some of them."""
        partitions = Looks(10_000)
        partitioner = RandomPartitioner()
        for _ in range(10):
            partitioner.choose("t", None, partitions)
        self.assertLess(partitions.looks, 200)
