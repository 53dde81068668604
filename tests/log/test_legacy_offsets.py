"""Tests of logd.log.legacy_offsets, the answer to Offsets requests of 0.7."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.log.legacy_offsets import offsets_before


class OffsetsBeforeTests(SynchronousTestCase):
    """Offsets by time, case by case."""

    def test_offsets_end_at_the_time_asked_for(self) -> None:
        """Ties count, an empty last segment adds no end, and the count takes the newest."""
        segments = [(0, 10.0), (100, 20.0), (200, 30.0)]
        for time, count, expected in (
            (-1, 10, [240, 200, 100, 0]),
            (-1, 2, [240, 200]),
            (-2, 10, [0]),
            (-2, 0, []),
            (30, 10, [200, 100, 0]),
            (29, 10, [100, 0]),
            (9, 10, []),
            (40, 10, [240, 200, 100, 0]),
            (-3, 10, []),
        ):
            self.assertEqual(offsets_before(segments, 240, 40.0, time, count), expected, (time, count))
        self.assertEqual(offsets_before(segments, 200, 40.0, -1, 10), [200, 100, 0])
        self.assertEqual(offsets_before(segments, 150, 40.0, -1, 10), [150, 100, 0])
        self.assertEqual(offsets_before([(0, 1.0)], 0, 40.0, -1, 10), [0])
