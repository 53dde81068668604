"""Seeds of the simulator: ``LOGD_SIMULATIONS=N`` runs N of them, ``LOGD_SIMULATION_START=S`` begins at seed S."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.simulation.mutations.mutations import MUTATIONS
from tests.simulation.simulation import simulate

#: Tests that share the seeds.
PARTS = 4
SEEDS = int(os.environ.get("LOGD_SIMULATIONS", "100"))
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))
#: Seeds that one broken thing may take to be found, here.
TRIES = int(os.environ.get("LOGD_SIMULATION_TRIES", "10"))
#: Seeds from 0 on, one after the other, that one broken thing may take where a hint has become wrong: any change of
#: timing moves the seeds that find a thing, and must not make the suite fail.
MOST_TRIES = 200
#: Hints at where to begin, for what the first seeds do not find (docs/reliability.md).
BEGINNINGS = {
    "claim_without_fence": 48,
    "tree_answers_before_the_flush": 13,
    "remove_before_the_checkpoint": 22,
    "too_large_is_damage": 11,
    "tell_listeners_until_one_raises": 7,
    "open_whatever_it_becomes": 8,
    "more_messages_than_bytes_are_damage": 6,
    "store_wrappers_of_no_codec": 6,
    "append_batches_before_their_format": 6,
    "pass_gaps_silently": 4,
    "stop_without_a_deadline": 3,
}

ROOT = Path(__file__).resolve().parents[2]


class SimulatingTestCase(SynchronousTestCase):
    """Tests that simulate, which makes much garbage and takes its time."""

    timeout = 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        gc.collect()
        gc.freeze()
        self.addCleanup(gc.unfreeze)


class SimulationTests(SimulatingTestCase):
    """Whole clusters with faults that seeds decide."""

    def test_every_promise_holds_in_the_first_quarter_of_seeds(self) -> None:
        """With any faults, every acknowledged message reaches every group in order, and groups settle."""
        self.simulate_part(0)

    def test_every_promise_holds_in_the_second_quarter_of_seeds(self) -> None:
        """The seeds are four tests, so that several processes can share the work."""
        self.simulate_part(1)

    def test_every_promise_holds_in_the_third_quarter_of_seeds(self) -> None:
        """A failure names the seed, and the command that shows it again."""
        self.simulate_part(2)

    def test_every_promise_holds_in_the_last_quarter_of_seeds(self) -> None:
        """The quarters cover all seeds also where their number is no multiple of four."""
        self.simulate_part(3)

    def simulate_part(self, part: int) -> None:
        """Run one of the four parts of all seeds."""
        for seed in range(START + SEEDS * part // PARTS, START + SEEDS * (part + 1) // PARTS):
            try:
                simulate(seed)
            except Exception as error:
                self.fail(f"seed {seed}: {error!r}; python -m tests.simulation --seed {seed} --trace")

    def test_a_seed_replays_exactly(self) -> None:
        """Also in another process, where strings hash otherwise: a failure that cannot be replayed cannot be mended."""
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

    def test_the_seeds_are_full_of_events(self) -> None:
        """Faults, rebalances, conflicts, commits and repeated messages occur; an idle simulator would find nothing."""
        reports = [simulate(seed) for seed in range(5)]
        self.assertTrue(all(report.acknowledged for report in reports))
        for count in ("rebalances", "conflicts", "duplicates", "commits"):
            self.assertGreater(sum(getattr(report, count) for report in reports), 0, count)
        self.assertGreater(len({kind for report in reports for kind in report.faults}), 8)


class MutationTests(SimulatingTestCase):
    """Algorithm 1, the fencing, and what lies below, broken on purpose."""

    def test_each_is_found(self) -> None:
        """The simulator finds each."""
        for name, broken in MUTATIONS.items():
            begin = BEGINNINGS.get(name, 0)
            seeds = chain(range(begin, begin + TRIES), range(max(TRIES, MOST_TRIES)))
            with broken():
                found = any(_fails(seed) for seed in seeds)
            self.assertTrue(found, f"{name} is not found")
            self.flushLoggedErrors()


def _fails(seed: int) -> bool:
    try:
        simulate(seed)
    except Exception:  # a Violation, or what a process of the cluster raised
        return True
    return False
