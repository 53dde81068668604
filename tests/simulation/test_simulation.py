"""Seeds of the simulator: ``LOGD_SIMULATIONS=N`` runs N of them, ``LOGD_SIMULATION_START=S`` from another one on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulation import simulate
from tests.simulation.violation import Violation

SEEDS = int(os.environ.get("LOGD_SIMULATIONS", "200"))
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))
#: Seeds that one broken thing may take to be found, here.
TRIES = int(os.environ.get("LOGD_SIMULATION_TRIES", "10"))
#: Where to begin, for what the first seeds do not find (docs/reliability.md).
BEGINNINGS = {
    "claim_without_waiting": 10,
    "skip_what_is_left": 10,
    "skip_silently": 10,
    "no_own_timer": 35,
}

ROOT = Path(__file__).resolve().parents[2]


class SimulationTests(SynchronousTestCase):
    """Whole clusters, their troubles decided by seeds."""

    timeout = 3600

    def test_seeds(self) -> None:
        """Whatever goes wrong, nothing acknowledged is lost, in no group, and groups settle."""
        for seed in range(START, START + SEEDS):
            try:
                simulate(seed)
            except Exception as error:
                self.fail(f"seed {seed}: {error!r}; python -m tests.simulation --seed {seed} --trace")
        # Of coroutines of killed processes that Python collected; what else was logged broke its seed.
        self.flushLoggedErrors(RuntimeError)

    def test_replays(self) -> None:
        """A seed is the same each time, also in another process, where strings hash otherwise."""
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
                timeout=120,
                check=False,
            )
            self.assertEqual(ran.stdout.decode().strip(), digest, ran.stderr.decode())

    def test_does_something(self) -> None:
        """Seeds are full of troubles, rebalances and messages that come twice."""
        reports = [simulate(seed) for seed in range(5)]
        self.assertTrue(all(report.acknowledged for report in reports))
        for count in ("rebalances", "conflicts", "duplicates", "commits"):
            self.assertGreater(sum(getattr(report, count) for report in reports), 0, count)
        self.assertGreater(len({kind for report in reports for kind in report.faults}), 8)


class MutationTests(SynchronousTestCase):
    """Algorithm 1, the fencing, and what lies below, broken on purpose."""

    timeout = 3600

    def test_each_is_found(self) -> None:
        """The simulator finds each."""
        for name, broken in MUTATIONS.items():
            begin = BEGINNINGS.get(name, 0)
            with broken():
                found = any(_fails(seed) for seed in range(begin, begin + TRIES))
            self.assertTrue(found, f"{name} is not found")
            self.flushLoggedErrors()


def _fails(seed: int) -> bool:
    try:
        simulate(seed)
    except Violation:
        return True
    return False
