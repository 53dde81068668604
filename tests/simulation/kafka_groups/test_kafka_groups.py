"""Seeds of groups of Kafka clients; ``LOGD_SIMULATIONS`` and ``LOGD_SIMULATION_START`` as in test_simulation."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain

from twisted.trial.unittest import SynchronousTestCase

from tests.frozen_objects import freeze_others
from tests.simulation.kafka_groups.mutations import GROUP_MUTATIONS
from tests.simulation.kafka_groups.simulation import simulate_groups
from tests.simulation.violation import Violation

SEEDS = max(1, int(os.environ.get("LOGD_SIMULATIONS", "50")) // 10)
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))
#: Seeds that a mutation may take to be found, and hints at where to begin, for what seed 0 does not find.
MOST_TRIES = 200
BEGINNINGS = {
    "commit_behind_the_next_generation": 2,
    "begin_generations_again": 1,
    "assign_to_any_generation": 1,
    "members_live_for_ever": 3,
    "expect_new_members_for_ever": 1,
    "forget_the_lost": 2,
    "commit_alone_among_members": 17,
}


class KafkaGroupTests(SynchronousTestCase):
    """Whatever fails: one owner in a generation, no commit of a former one, no commit lost, and rest in the end."""

    timeout = 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)

    def test_seeds(self) -> None:
        """All promises hold, with all kinds of faults, and much is committed."""
        faults: Counter[str] = Counter()
        commits = 0
        for seed in range(START, START + SEEDS):
            try:
                simulation = simulate_groups(seed)
            except Violation as violation:
                self.fail(f"seed {seed}: {violation}")
            faults += simulation.faults
            commits += simulation.ledger.commits
        self.assertGreater(len(faults), 6)
        self.assertGreater(commits, 5 * SEEDS)

    def test_a_seed_replays_exactly(self) -> None:
        """A failure that cannot be replayed cannot be mended."""
        self.assertEqual(*[simulate_groups(2).world.trace.digest for _ in range(2)])

    def test_each_rule_is_needed(self) -> None:
        """Without it, a promise is broken within some seeds."""
        for name, broken in GROUP_MUTATIONS.items():
            begin = BEGINNINGS.get(name, 0)
            with broken():
                seeds = chain(range(begin, begin + 10), range(MOST_TRIES))
                self.assertTrue(any(map(_breaks_a_promise, seeds)), f"{name} is not found")
            self.flushLoggedErrors()


def _breaks_a_promise(seed: int) -> bool:
    try:
        simulate_groups(seed)
    except Violation as violation:
        cause = violation.__cause__
        if isinstance(cause, AttributeError | ImportError | NameError | TypeError):
            raise
        return True
    return False
