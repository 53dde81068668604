"""Tests of medians and their intervals."""

from __future__ import annotations

from random import Random
from statistics import median

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.rates.estimates import Estimate, estimate


class EstimateTests(SynchronousTestCase):
    """The interval by order statistics."""

    def test_the_interval_is_that_of_the_tables(self) -> None:
        """Ranks of the 95 % interval for some numbers of values, from published tables."""
        for count, rank in ((6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (30, 10), (50, 18)):
            found = estimate(range(1, count + 1))
            self.assertEqual((found.low, found.high), (rank, count + 1 - rank), count)

    def test_too_few_values_have_no_interval(self) -> None:
        """Five may all lie on one side, with a probability of one in sixteen."""
        self.assertEqual(estimate([3, 1, 2, 5, 4]), Estimate(3, None, None))

    def test_the_interval_has_the_true_median_as_often_as_it_says(self) -> None:
        """Values of a lopsided distribution, whose median is known."""
        random, held = Random(7), 0
        for _ in range(1000):
            found = estimate([random.expovariate(1.0) for _ in range(30)])
            assert found.low is not None and found.high is not None
            held += found.low <= 0.693147 <= found.high
        self.assertGreater(held, 930)

    def test_ratios_become_percentages(self) -> None:
        """Rounded to a tenth."""
        values = [1.02, 1.0, 1.031, 0.99, 1.04, 1.01, 1.02]
        self.assertEqual(estimate(values).percent_over().median, round(100 * (median(values) - 1), 1))
        self.assertEqual(Estimate(1.5, None, None).percent_over(), Estimate(50.0, None, None))
