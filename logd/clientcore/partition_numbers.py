"""Numbers of partitions, ascending: whether one is among them, at a cost that hardly grows with them, and in words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def is_among(number: int, numbers: Sequence[int]) -> bool:
    """Whether ``number`` is one of ``numbers``, which ascend."""
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def in_words(numbers: Sequence[int]) -> str:
    """Name numbers for an error: a list of a few, else where they begin and end, and how many they are."""
    if len(numbers) <= 10:
        return str(list(numbers))
    whole = numbers[-1] - numbers[0] + 1 == len(numbers)
    return f"{numbers[0]} to {numbers[-1]}" + ("" if whole else f", {len(numbers)} of them")
