"""Tests of following a log that its writer rotates between any two operations; LOGD_LIVES sets the number of lives."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.collect.interleaving import InterleavedLife
from tests.collect.mutations import INTERLEAVED
from tests.collect.simulation import Broken

LIVES = int(os.environ.get("LOGD_LIVES") or 150)
#: The seed of the first one.
FIRST = int(os.environ.get("LOGD_LIVES_START") or 0)
STEPS = 60


class InterleavingTests(SynchronousTestCase):
    """Nothing is removed, so nothing may be lost, nor called lost."""

    def test_every_line_arrives_and_none_is_called_lost(self) -> None:
        """Renamed, copied and emptied: before each look, listing, opening and reading of a file."""
        rotations = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = InterleavedLife(seed)
            life.run(STEPS)
            rotations += life.rotations
        self.assertGreater(rotations, LIVES * 5)

    def test_each_fault_is_found_by_random_lives(self) -> None:
        """The lives would prove nothing otherwise; the seeds are in docs/reliability.md too."""
        for seed, broken in INTERLEAVED.values():
            with broken():
                self.assertRaises(Broken, InterleavedLife(seed).run, STEPS)
            InterleavedLife(seed).run(STEPS)
