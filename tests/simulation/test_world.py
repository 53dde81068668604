"""Tests of tests.simulation.world: nothing of a life outlives it."""

from __future__ import annotations

import gc
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.simulation.kafka_groups.simulation import simulate_groups
from tests.simulation.mirroring.simulation import simulate_mirror
from tests.simulation.replication.life import live
from tests.simulation.simulation import simulate
from tests.simulation.world import World


def worlds() -> int:
    """Return the number of worlds in memory."""
    gc.collect()
    return sum(isinstance(each, World) for each in gc.get_objects())


class WorldTests(SynchronousTestCase):
    """Worlds whose simulation has ended."""

    def test_no_world_stays_beside_the_last_one(self) -> None:
        """Each has twenty thousand objects, through which Python would look for garbage again in every later life."""
        lives: tuple[Callable[[int], object], ...] = (simulate, simulate_mirror, live, simulate_groups)
        for simulated in lives:
            simulated(1)
            before = worlds()
            simulated(2)
            self.assertEqual(worlds(), before, simulated.__name__)
