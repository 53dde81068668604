"""Seeds of the simulator: ``LOGD_SIMULATIONS=N`` runs N of them, ``LOGD_SIMULATION_START=S`` begins at seed S."""

from __future__ import annotations

import os
import warnings
from itertools import chain

from twisted.trial.unittest import SynchronousTestCase

from tests.frozen_objects import freeze_others
from tests.simulation.faults import ListenerError
from tests.simulation.mutations.directed import DIRECTED_MUTATIONS
from tests.simulation.mutations.mutations import MUTATIONS
from tests.simulation.mutations.patching import problems_of
from tests.simulation.simulation import simulate
from tests.simulation.violation import Violation

#: Tests that share the seeds.
PARTS = 4
SEEDS = int(os.environ.get("LOGD_SIMULATIONS", "50"))
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))
#: Seeds that one broken thing may take to be found, here.
TRIES = int(os.environ.get("LOGD_SIMULATION_TRIES", "10"))
#: Seeds from 0 on, one after the other, that one broken thing may take where a hint has become wrong: any change of
#: timing moves the seeds that find a thing, and must not make the suite fail.
MOST_TRIES = 200
#: Hints at where to begin, for what seed 0 does not find (docs/reliability.md), or not as soon as another one.
BEGINNINGS = {
    "acknowledge_the_next_offset": 4,
    "commit_without_version": 10,
    "claim_without_fence": 14,
    "claim_without_waiting": 17,
    "keep_half_a_claim": 18,
    "deaf_to_members": 1,
    "stay_removed": 58,
    "skip_what_is_left": 23,
    "skip_silently": 8,
    "answer_before_the_flush": 4,
    "flush_before_the_last_answer": 3,
    "tree_answers_before_the_flush": 56,
    "time_by_the_time_of_day": 3,
    "end_the_tree_on_a_full_disk": 16,
    "stop_without_a_deadline": 3,
    "stop_while_producers_send": 119,
    "refuse_what_a_snapshot_has": 20,
    "trust_the_newest_snapshot_alone": 37,
    "overwrite_what_no_codec_opens": 2,
    "serve_partitions_of_two": 3,
    "more_messages_than_bytes_are_damage": 6,
    "store_wrappers_of_no_codec": 6,
    "append_batches_before_their_format": 6,
    "believe_names_in_the_tree": 1,
    "believe_json_in_the_tree": 1,
    "remove_before_the_checkpoint": 79,
    "stop_at_a_damaged_record": 6,
    "believe_damaged_records": 38,
    "close_files_under_threads": 25,
    "ask_for_connections_for_ever": 20,
    "close_paused_connections": 40,
    "pass_gaps_silently": 6,
    "open_whatever_it_becomes": 8,
    "too_large_is_damage": 11,
    "believe_positions_in_the_tree": 7,
    "stop_a_group_for_a_bad_position": 2,
    "tell_listeners_until_one_raises": 9,
    "no_own_timer": 22,
    "keep_no_copy_of_meta": 53,
}

#: Errors other than Violation by which a mutation is found: what it lets through ends the simulation.
ERRORS: dict[str, type[Exception]] = {"tell_listeners_until_one_raises": ListenerError}
#: Errors of a mutation that does not fit the code any more, not of a process that it breaks.
BUGS = (AttributeError, ImportError, NameError, TypeError)


class SimulatingTestCase(SynchronousTestCase):
    """Tests that simulate, which makes much garbage and takes its time."""

    timeout = 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)


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

    def test_the_seeds_are_full_of_events(self) -> None:
        """Faults, rebalances, conflicts, commits and repeated messages occur; an idle simulator would find nothing."""
        reports = [simulate(seed) for seed in range(5)]
        self.assertTrue(all(report.acknowledged for report in reports))
        for count in ("rebalances", "conflicts", "duplicates", "commits"):
            self.assertGreater(sum(getattr(report, count) for report in reports), 0, count)
        self.assertGreater(len({kind for report in reports for kind in report.faults}), 8)


class MutationTests(SimulatingTestCase):
    """Algorithm 1, the fencing, and what lies below, broken on purpose."""

    def test_the_simulator_finds_each_mutation(self) -> None:
        """Each breaks a promise within a few seeds; a promise that nothing can break would be none."""
        for name, broken in MUTATIONS.items():
            begin = BEGINNINGS.get(name, 0)
            seeds = chain(range(begin, begin + TRIES), range(max(TRIES, MOST_TRIES)))
            with broken():
                found = next((seed for seed in seeds if self.breaks_a_promise(name, seed)), None)
            self.assertIsNotNone(found, f"{name} is not found")
            self.flushLoggedErrors()
            if found not in range(begin, begin + TRIES):  # the test is right, and takes a minute longer than it need
                warnings.warn(f"begin at seed {found} for {name}: its hint has become wrong", stacklevel=1)

    def test_a_test_finds_each_mutation_outside_of_the_simulator(self) -> None:
        """Each is given with a test, which passes without it and fails under it with certain words."""
        for name, mutation in DIRECTED_MUTATIONS.items():
            self.assertEqual(problems_of(mutation.test_name), "", f"without {name}")
            with mutation.apply():
                self.assertIn(mutation.words, problems_of(mutation.test_name), name)

    def breaks_a_promise(self, name: str, seed: int) -> bool:
        """Return whether a seed raises Violation, or the mutation's own error.

        Any other error, or a bug behind a Violation, fails the test.
        """
        try:
            simulate(seed)
        except Violation as violation:
            cause: BaseException | None = violation
            while cause is not None:
                if isinstance(cause, BUGS):
                    self.fail(f"{name} is itself broken, or breaks more than it says, at seed {seed}: {violation}")
                cause = cause.__cause__
            return True
        except ERRORS.get(name, ()):
            return True
        return False
