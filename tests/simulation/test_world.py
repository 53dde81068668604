"""Tests of tests.simulation.world: what a life leaves does not slow the later ones."""

from __future__ import annotations

import gc
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.frozen_objects import freeze_others
from tests.simulation.kafka_groups.simulation import simulate_groups
from tests.simulation.mirroring.simulation import simulate_mirror
from tests.simulation.replication.life import live
from tests.simulation.simulation import simulate

#: Objects that one life may leave to collections of garbage; a life has twenty thousand and more.
FEW = 2000


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
