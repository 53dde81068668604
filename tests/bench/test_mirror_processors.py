"""Tests of logd.bench.mirror_processors: the ratio of rates that processor times allow."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.mirror_processors import ProcessorTimes

TIMES = ProcessorTimes(0.3, 0.2, 0.6, 1.0, 0.8)


class ProcessorTimesTests(SynchronousTestCase):
    """``ProcessorTimes``."""

    def test_the_ratio_that_is_possible_depends_on_the_processors(self) -> None:
        """With few, the sum of the processes decides, with many the slowest one of each."""
        self.assertAlmostEqual(TIMES.possible_ratio(1), 0.5 / 2.4)
        self.assertAlmostEqual(TIMES.possible_ratio(2), 0.3 / 1.2)
        self.assertAlmostEqual(TIMES.possible_ratio(8), 0.3 / 1.0)
        self.assertAlmostEqual(TIMES.ratio, 0.2)
        self.assertEqual(TIMES.figures(2)["possible_ratio_to_consumed"], 0.25)
        self.assertIn("2.40 ms of processor time", TIMES.meaning(2))
        self.assertIn("a ratio of about 0.25", TIMES.meaning(2))

    def test_medians_are_of_each_figure(self) -> None:
        """Rounds on a noisy machine differ in one process or the other."""
        rounds = [ProcessorTimes(*[number] * 5) for number in (1, 9, 2)]
        self.assertEqual(ProcessorTimes.medians(rounds), ProcessorTimes(2, 2, 2, 2, 2))
        self.assertEqual(ProcessorTimes(1, 1, 0, 0, 0).possible_ratio(2), 0.0)
        self.assertIn("too few messages", ProcessorTimes(1, 1, 0, 0, 0).meaning(2))
