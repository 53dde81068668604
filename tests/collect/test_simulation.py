"""Tests of following files through random lives; LOGD_LIVES sets their number."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.collect.absences import AbsentLife
from tests.collect.mutations import MUTATIONS
from tests.collect.simulation import Broken, Life

LIVES = int(os.environ.get("LOGD_LIVES") or 150)
#: Lives that it may take to find one fault.
TRIES = 20
#: The seed of the first one.
FIRST = int(os.environ.get("LOGD_LIVES_START") or 0)


class SimulationTests(SynchronousTestCase):
    """Lives with growth, rotations of every kind, few open files and silent brokers."""

    def test_every_line_arrives_once_while_collecting(self) -> None:
        """Lines of a file are in order."""
        repeating = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = Life(seed, crashes=False)
            life.run(200)
            repeating += life.may_repeat
        self.assertLess(repeating, LIVES * 0.7)

    def test_every_line_arrives_despite_kills(self) -> None:
        """Killed at any moment, the collector still sends the lines of a file in order."""
        killed = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = Life(seed)
            life.run(200)
            killed += life.killed
        self.assertGreater(killed, LIVES)

    def test_every_remaining_line_arrives_after_absences(self) -> None:
        """Any number of rotations may have happened, and each loss is reported."""
        missed = destructive = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = AbsentLife(seed)
            life.run(200)
            missed += life.rotations_missed
            destructive += life.destructive
        self.assertGreater(missed, LIVES * 5)
        self.assertGreater(destructive, LIVES // 5)


class MutationTests(SynchronousTestCase):
    """Faults put into the handling of absences."""

    def test_each_fault_is_found_by_random_lives(self) -> None:
        """The simulation would prove nothing otherwise; the seeds are in docs/reliability.md."""
        for name, broken in MUTATIONS.items():
            with broken():
                self.assertTrue(any(map(_fails, range(TRIES))), f"{name} is not found")


def _fails(seed: int) -> bool:
    try:
        AbsentLife(seed).run(200)
    except Broken:
        return True
    return False
