"""Tests of tests.simulation.world: a life is the same in every process, and what it leaves does not slow later ones."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.frozen_objects import freeze_others
from tests.simulation.kafka_groups.simulation import simulate_groups
from tests.simulation.mirroring.simulation import simulate_mirror
from tests.simulation.replication.life import live
from tests.simulation.simulation import simulate

#: Objects that one life may leave to collections of garbage; a life has twenty thousand and more.
FEW = 2000
ROOT = Path(__file__).resolve().parents[2]


class WorldTests(SynchronousTestCase):
    """Worlds whose simulation has ended."""

    def test_no_collection_looks_through_ended_lives(self) -> None:
        """Otherwise each life would take longer than the one before: twice as long after thirty."""
        freeze_others(self)
        lives: tuple[Callable[[int], object], ...] = (simulate, simulate_mirror, live, simulate_groups)
        for simulated in lives:
            simulated(1)
            before = len(gc.get_objects())
            simulated(2)
            self.assertLess(len(gc.get_objects()), before + FEW, simulated.__name__)


class ReplayTests(SynchronousTestCase):
    """One seed, again and again."""

    def test_a_seed_replays_exactly(self) -> None:
        """Also in another process, where strings hash otherwise: a failure that cannot be replayed cannot be mended."""
        freeze_others(self)
        digest = simulate(5).digest
        self.assertEqual(simulate(5).digest, digest)
        command = "from tests.simulation.simulation import simulate; print(simulate(5).digest)"
        for salt in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)}
            ran = subprocess.run(
                [sys.executable, "-c", command],
                env=environment,
                cwd=ROOT,
                capture_output=True,
                timeout=600,
                check=False,
            )
            self.assertEqual(ran.stdout.decode().strip(), digest, ran.stderr.decode())
