"""Tests of replication by simulated lives; LOGD_SIMULATE_REPLICATION is the number of seeds."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.memory.disk import PowerLoss
from tests.frozen_objects import freeze_others
from tests.simulation.replication.life import live

#: The seeds of the short form, and the first one.
SEEDS = int(os.environ.get("LOGD_SIMULATE_REPLICATION", "40"))
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))


class ReplicationTests(SynchronousTestCase):
    """Whatever fails: what was acknowledged with acks=-1 stays, and all replicas are equal in the end."""

    timeout = 24 * 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)

    def test_every_promise_holds_in_the_first_half_of_the_seeds(self) -> None:
        """The seeds are two tests, so that several processes can share the work."""
        self.live_all(range(START, START + SEEDS // 2))

    def test_every_promise_holds_in_the_second_half_of_the_seeds(self) -> None:
        """A failure names the seed, and the command that shows it again."""
        self.live_all(range(START + SEEDS // 2, START + SEEDS))

    def live_all(self, seeds: range) -> None:
        """Run seeds."""
        for seed in seeds:
            try:
                live(seed)
            except Exception as error:
                self.fail(f"seed {seed}: {error!r}; python -m tests.simulation.replication --seed {seed} --trace")
            self.flushLoggedErrors(PowerLoss)  # what brokers say of their own death

    def test_a_seed_replays_exactly(self) -> None:
        """A failure that cannot be replayed cannot be mended."""
        self.assertEqual(*[live(3)[1] for _ in range(2)])
        self.flushLoggedErrors(PowerLoss)
