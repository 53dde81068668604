"""Ascending numbers of partitions: membership by binary search, and a text for errors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def is_among(number: int, numbers: Sequence[int]) -> bool:
    """Return whether ``number`` is one of ``numbers``, which ascend."""
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def in_words(numbers: Sequence[int]) -> str:
    """Return numbers as text for an error: a list of up to 10, else the first, the last and the count."""
    if len(numbers) <= 10:
        return str(list(numbers))
    whole = numbers[-1] - numbers[0] + 1 == len(numbers)
    return f"{numbers[0]} to {numbers[-1]}" + ("" if whole else f", {len(numbers)} of them")
