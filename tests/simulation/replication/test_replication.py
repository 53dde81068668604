"""Tests of replication by simulated lives."""

from __future__ import annotations

import os
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.simulation.replication.simulation import ReplicationSimulation
from tests.simulation.world import World

#: The seeds of the short form.
SEEDS = int(os.environ.get("LOGD_SIMULATE_REPLICATION", "12"))


def live(seed: int, show: Callable[[str], None] | None = None) -> dict[str, int]:
    """Run a seed; return the faults made. Raises Violation."""
    world = World(seed, show)
    with world.randomness(), world.observed(), world.unburied():
        simulation = ReplicationSimulation(world)
        try:
            return simulation.run()
        finally:
            simulation.end()
            del simulation


class ReplicationTests(SynchronousTestCase):
    """Whatever fails: what was acknowledged with acks=-1 stays, and all replicas are equal in the end."""

    def test_every_promise_holds(self) -> None:
        """In each of some seeds."""
        for seed in range(SEEDS):
            live(seed)
