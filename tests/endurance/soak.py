"""``python -m tests.endurance.soak --hours 8``: the random tests with new seeds, in turn, until the time is over.

Random lives of logs, of the tree and of followed files, whole clusters on a clock, hostile bytes, and real processes
that are killed while messages flow. Each turn of each kind takes seeds that no earlier turn took. A failure does not
end the run: its seeds, its command and its output are kept, and the status is 1. The report at the end lists the
exercises, the turns of each, and the failures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, field, frozen

from tests.endurance.trial import ROOT, TrialRun, run_trial

#: The folder of the reports and of the output of failing turns.
FOLDER = ROOT / ".soak"
#: The longest time of one turn, in seconds; turns are meant to take ten minutes at most.
PATIENCE = 3600.0


@frozen
class Exercise:
    """One kind of turn: a test module, and how its environment makes it longer and gives it seeds."""

    name: str
    module: str
    #: The unit of ``count``, as the report names it.
    unit: str
    count: int
    #: The environment of a turn whose first seed is given.
    environment: Callable[[int], dict[str, str]]


def _seeded(amount: str, first: str, count: int) -> Callable[[int], dict[str, str]]:
    return lambda seed: {amount: str(count), first: str(seed)}


def _repeated(name: str, count: int) -> Callable[[int], dict[str, str]]:
    return lambda seed: {name: str(count)}


def _new_examples(count: int) -> Callable[[int], dict[str, str]]:
    return lambda seed: {"LOGD_FUZZ_EXAMPLES": str(count), "LOGD_NEW_EXAMPLES": "1"}


def _chaos(seconds: int, ensemble: int, uvloop: int = 0) -> Callable[[int], dict[str, str]]:
    return lambda seed: {
        "LOGD_CHAOS_SECONDS": str(seconds),
        "LOGD_CHAOS_SEED": str(seed),
        "LOGD_CHAOS_ENSEMBLE": str(ensemble),
        "LOGD_CHAOS_UVLOOP": str(uvloop),
    }


def _imports(runs: int) -> Callable[[int], dict[str, str]]:
    return lambda seed: {"LOGD_IMPORT_RUNS": str(runs), "LOGD_IMPORT_SEED": str(seed)}


#: In turn, the cheap ones first.
EXERCISES = (
    Exercise(
        "lives of a log on a disk that loses power",
        "tests.log.crashes.test_crashes.HistoryTests.test_random_lives_keep_every_invariant",
        "histories",
        2000,
        _seeded("LOGD_HISTORIES", "LOGD_HISTORY_START", 2000),
    ),
    Exercise(
        "lives of the tree on a disk that loses power",
        "tests.coord.server.test_crashes.TreeHistoryTests.test_every_recovered_tree_is_one_that_was",
        "histories",
        2000,
        _seeded("LOGD_HISTORIES", "LOGD_HISTORY_START", 2000),
    ),
    Exercise(
        "lives of followed files",
        "tests.collect.test_simulation",
        "lives",
        1500,
        _seeded("LOGD_LIVES", "LOGD_LIVES_START", 1500),
    ),
    Exercise(
        "clusters on a clock",
        "tests.simulation.test_simulation.SimulationTests",
        "seeds",
        1000,
        _seeded("LOGD_SIMULATIONS", "LOGD_SIMULATION_START", 1000),
    ),
    Exercise(
        "hostile bytes at the protocol",
        "tests.protocol.test_fuzzing",
        "examples of each kind",
        3000,
        _new_examples(3000),
    ),
    Exercise(
        "hostile bytes at Spark's reader",
        "tests.spark.reading.test_hostile_logs",
        "examples",
        3000,
        _new_examples(3000),
    ),
    Exercise(
        "compiled loops beside those in Python",
        "tests.protocol.loops.test_twins",
        "examples of each kind",
        3000,
        _new_examples(3000),
    ),
    Exercise(
        "patterns of topics beside those of Python",
        "tests.coord.registries.test_patterns",
        "examples",
        100,
        _new_examples(100),
    ),
    Exercise(
        "the tree beside ZooKeeper, answer by answer",
        "tests.integration.coordination.test_against_zookeeper",
        "seeds",
        20,
        _seeded("LOGD_WIRE_SEEDS", "LOGD_WIRE_FIRST", 20),
    ),
    Exercise("chaos with real processes", "tests.integration.chaos.test_chaos", "seconds", 120, _chaos(120, 0)),
    Exercise("chaos over an ensemble", "tests.integration.chaos.test_chaos", "seconds", 120, _chaos(120, 1)),
    Exercise("chaos on uvloop", "tests.integration.chaos.test_chaos", "seconds", 120, _chaos(120, 0, 1)),
    Exercise(
        "brokers that are killed",
        "tests.integration.broker.test_kills",
        "rounds",
        30,
        _repeated("LOGD_TEST_ROUNDS", 30),
    ),
    Exercise(
        "clients that are killed",
        "tests.integration.clients.test_kills_clients",
        "rounds",
        30,
        _repeated("LOGD_TEST_ROUNDS", 30),
    ),
    Exercise(
        "collectors that are killed",
        "tests.integration.commands.test_collect",
        "rounds",
        30,
        _repeated("LOGD_KILL_ROUNDS", 30),
    ),
    Exercise("imports that are killed", "tests.integration.spark.test_import", "runs", 10, _imports(10)),
)


@define
class Tally:
    """The turns of one exercise so far."""

    exercise: Exercise
    turns: int = 0
    seconds: float = 0.0
    #: First seeds of the turns that failed.
    failed: list[int] = field(factory=list)

    def command(self, seed: int) -> str:
        """Return the command that repeats the turn which began at ``seed``."""
        words = [f"{name}={value}" for name, value in self.exercise.environment(seed).items()]
        return " ".join([*words, "python -m twisted.trial", self.exercise.module])


def soak(
    exercises: tuple[Exercise, ...],
    until: Callable[[], bool],
    seeds: Iterator[int],
    run: Callable[[str, dict[str, str]], TrialRun],
    tell: Callable[[str], None],
    keep: Callable[[Exercise, int, TrialRun], None],
) -> list[Tally]:
    """Give each exercise a turn, in rounds, until ``until()`` is true; every exercise has at least one.

    ``seeds`` yields the first seed of each round; ``keep`` gets each failure.
    """
    tallies = [Tally(exercise) for exercise in exercises]
    for seed in seeds:
        for tally in tallies:
            if until() and tally.turns:
                return tallies
            exercise = tally.exercise
            tell(f"{exercise.name}: {exercise.count} {exercise.unit} from seed {seed}")
            done = run(exercise.module, exercise.environment(seed))
            tally.turns += 1
            tally.seconds += done.seconds
            if not done.passed:
                tally.failed.append(seed)
                keep(exercise, seed, done)
                tell(f"  FAILED: {tally.command(seed)}")
        if until():
            return tallies
    return tallies


def report(tallies: list[Tally]) -> list[str]:
    """Return the lines of the report."""
    lines = []
    for tally in tallies:
        done = f"{tally.turns * tally.exercise.count} {tally.exercise.unit} in {tally.seconds / 60:.0f} min"
        lines.append(f"{tally.exercise.name}: {done}, {len(tally.failed)} of {tally.turns} turns failed")
        lines += [f"  again by: {tally.command(seed)}" for seed in tally.failed]
    failed = sum(len(tally.failed) for tally in tallies)
    return [*lines, f"{sum(tally.turns for tally in tallies) - failed} passed, {failed} failed"]


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if a turn failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=8.0, help="how long; every exercise has one turn at least (8)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where the seeds begin (the time)")
    parser.add_argument("--only", metavar="TEXT", default="", help="exercises whose name contains this")
    options = parser.parse_args(arguments)
    exercises = tuple(exercise for exercise in EXERCISES if options.only in exercise.name)
    if not exercises:
        parser.error(f"no exercise's name contains {options.only!r}: " + "; ".join(each.name for each in EXERCISES))
    end = time.monotonic() + options.hours * 3600
    begin = time.strftime("%Y-%m-%d-%H%M%S")
    FOLDER.mkdir(exist_ok=True)

    def tell(line: str) -> None:
        print(time.strftime("%H:%M:%S"), line, flush=True)

    def keep(exercise: Exercise, seed: int, done: TrialRun) -> None:
        name = f"{begin}-{exercise.module.split('.', 1)[1]}-{seed}.log"
        Path(FOLDER, name).write_text(done.output, encoding="utf-8")

    tallies = soak(
        exercises,
        lambda: time.monotonic() >= end,
        itertools.count(options.seed, max(each.count for each in exercises)),
        lambda module, environment: run_trial(module, PATIENCE, environment),
        tell,
        keep,
    )
    lines = report(tallies)
    print("\n".join(lines))
    Path(FOLDER, f"{begin}.json").write_text(
        json.dumps({"seed": options.seed, "hours": options.hours, "report": lines}, indent=1), encoding="utf-8"
    )
    return 1 if any(tally.failed for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
