"""Tests of following files through random lives; more of them by LOGD_LIVES."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.collect.absences import AbsentLife
from tests.collect.mutations import MUTATIONS
from tests.collect.simulation import Broken, Life

LIVES = int(os.environ.get("LOGD_LIVES") or 150)
#: Lives that one broken thing may take to be found.
TRIES = 20
#: The seed of the first one.
FIRST = int(os.environ.get("LOGD_LIVES_START") or 0)


class SimulationTests(SynchronousTestCase):
    """Growth, rotations by renaming, copying and making anew, few open files, brokers that are silent."""

    def test_calm(self) -> None:
        """While the collector lives every line arrives, in order by file, and once."""
        repeating = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = Life(seed, crashes=False)
            life.run(200)
            repeating += life.may_repeat
        self.assertLess(repeating, LIVES * 0.7)

    def test_crashes(self) -> None:
        """Killed at any moment it still sends every line, in order by file."""
        killed = 0
        for seed in range(FIRST, FIRST + LIVES):
            life = Life(seed)
            life.run(200)
            killed += life.killed
        self.assertGreater(killed, LIVES)

    def test_absences(self) -> None:
        """After any number of rotations without a collector every line arrives that is still there, and what is not is
        said each time."""
        missed = destructive = 0
        for seed in range(LIVES):
            life = AbsentLife(seed)
            life.run(200)
            missed += life.rotations_missed
            destructive += life.destructive
        self.assertGreater(missed, LIVES * 5)
        self.assertGreater(destructive, LIVES // 5)


class MutationTests(SynchronousTestCase):
    """What is found out about an absence, broken on purpose."""

    def test_each_is_found(self) -> None:
        """Lives with absences find each; the seeds are in docs/reliability.md."""
        for name, broken in MUTATIONS.items():
            with broken():
                self.assertTrue(any(map(_fails, range(TRIES))), f"{name} is not found")


def _fails(seed: int) -> bool:
    try:
        AbsentLife(seed).run(200)
    except Broken:
        return True
    return False
