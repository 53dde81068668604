"""The median of repeated measurements, with an interval that tells whether a small difference can be seen at all."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median

from attrs import frozen

#: The probability with which the interval has the median of all measurements that could have been made.
CONFIDENCE = 0.95


@frozen
class Estimate:
    """A median, and the ends of its interval of confidence; without ends if there are too few measurements for one."""

    median: float
    low: float | None
    high: float | None

    def percent_over(self, whole: float = 1.0) -> Estimate:
        """Return ratios to ``whole`` as percentages over it, rounded to a tenth."""
        return Estimate(*(None if each is None else round(100 * (each / whole - 1), 1) for each in self._all()))  # type: ignore[arg-type]  # the first is never None

    def _all(self) -> tuple[float | None, ...]:
        return self.median, self.low, self.high


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the median and its interval by order statistics, which assume nothing about the values' distribution.

    As many values lie below the true median as coins fall on one side, so the interval from the k-th smallest to the
    k-th largest misses it with the probability of fewer than k such coins among all, twice.
    """
    ordered, count = sorted(values), len(values)
    missed, rank = 0.0, 0
    while rank < count // 2 and 2 * (missed + comb(count, rank) / 2**count) <= 1 - confidence:
        missed += comb(count, rank) / 2**count
        rank += 1
    if not rank:
        return Estimate(median(ordered), None, None)
    return Estimate(median(ordered), ordered[rank - 1], ordered[count - rank])
