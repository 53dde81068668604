"""Tests of the commands for long runs: the tests they choose, the outcomes they keep, and their exit status."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.endurance import flakes
from tests.endurance.flakes import (
    DIVIDED,
    Outcomes,
    TreeState,
    costs,
    disturbable_modules,
    in_any_order,
    repeated_tests,
    report,
)
from tests.endurance.load import Load
from tests.endurance.soak import EXERCISES, Exercise, soak
from tests.endurance.soak import report as soak_report
from tests.endurance.trial import ROOT, TrialRun, run_trial


def done(module: str, status: int = 0, processor_seconds: float = 0.5) -> TrialRun:
    """Return the outcome of a run that took a second."""
    summary = "PASSED (successes=1)" if status == 0 else "FAILED (failures=1)"
    return TrialRun(module, status, 1.0, summary, "what it printed", processor_seconds)


class TrialRunTests(SynchronousTestCase):
    """``run_trial`` on modules that really run."""

    def write(self, body: str) -> Path:
        """Write a test module outside the project."""
        path = Path(self.mktemp()).absolute().with_suffix(".py")
        path.write_text(
            f"from twisted.trial.unittest import TestCase\nclass T(TestCase):\n    def test_it(self):\n        {body}\n"
        )
        return path

    def test_a_passing_module_is_reported_as_passed(self) -> None:
        """Its status is 0, and trial's closing line is kept."""
        run = run_trial(str(self.write("pass")), 240)
        self.assertEqual((run.passed, run.summary), (True, "PASSED (successes=1)"))

    def test_the_time_of_processors_includes_that_of_processes(self) -> None:
        """A module may wait most of the time, or keep several processors busy by other processes."""
        burn = "import time\\nwhile time.process_time() < 2: pass"  # far more than trial itself takes
        body = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{burn}'], check=True)"
        self.assertGreater(run_trial(str(self.write(body)), 240).processor_seconds, 2)

    def test_a_failing_module_keeps_its_output(self) -> None:
        """It has not passed, and its output is there to read."""
        run = run_trial(str(self.write("self.fail('so be it')")), 240)
        self.assertFalse(run.passed)
        self.assertIn("so be it", run.output)

    def test_a_module_without_tests_has_not_passed(self) -> None:
        """A misspelt name must not count as success."""
        path = self.write("pass")
        path.write_text("")
        self.assertFalse(run_trial(str(path), 240).passed)

    def test_a_module_that_hangs_is_ended(self) -> None:
        """It has not passed, and the outcome says that it hung."""
        run = run_trial(str(self.write("import time; time.sleep(600)")), 2)
        self.assertFalse(run.passed)
        self.assertIn("hung", run.output)


class FlakesTests(SynchronousTestCase):
    """Repeating the tests that a busy machine could disturb."""

    def outcomes(self, folder: str, state: str = "s") -> Outcomes:
        """Return the outcomes in a folder, read."""
        found = Outcomes(Path(folder), lambda _: state)
        found.load()
        return found

    def test_tests_of_processes_and_sockets_are_chosen(self) -> None:
        """Tests of timers are too; tests without any of these are left out."""
        modules = disturbable_modules()
        for each in ("tests.integration.broker.test_kills", "tests.cli.bench.test_coordination", "tests.web.test_site"):
            self.assertIn(each, modules)
        self.assertNotIn("tests.protocol.test_gap", modules)

    def test_tests_that_import_a_disturbable_rig_are_chosen(self) -> None:
        """Their own texts may have no sign of sockets."""
        root = Path(self.mktemp())
        (root / "tests" / "a").mkdir(parents=True)
        for name, text in (
            ("rig", "import socket"),
            ("base", "from tests.a import (\n    other,\n    rig,\n)"),
            ("test_far", "from tests.a.base import Base"),
            ("test_whole", "import tests.a.rig"),
            ("test_calm", "from tests.a.other import Other"),
        ):
            (root / "tests" / "a" / f"{name}.py").write_text(text)
        self.assertEqual(disturbable_modules(root), ["tests.a.test_far", "tests.a.test_whole"])

    def test_the_pages_of_the_documentation_run_one_by_one(self) -> None:
        """They take minutes, and one after the other they would hold a round up; other modules run as a whole."""
        names = repeated_tests()
        pages = [name for name in names if name.startswith(f"{DIVIDED[0]}.PageTests.test_the_page_")]
        self.assertGreater(len(pages), 10)
        self.assertNotIn(DIVIDED[0], names)
        self.assertLessEqual({*disturbable_modules()} - {*DIVIDED}, {*names})

    def test_an_interrupted_run_goes_on_where_it_was(self) -> None:
        """Outcomes of the same files are read again, of other files not; a line that was cut short does no harm."""
        folder = self.mktemp()
        self.outcomes(folder).add(1, False, done("tests.a"))
        with Path(folder, "outcomes.jsonl").open("a") as file:
            file.write('{"state": "s", "ru')
        self.assertEqual(self.outcomes(folder).missing(1, ["tests.a", "tests.b"]), ["tests.b"])
        self.assertEqual(self.outcomes(folder).missing(2, ["tests.a"]), ["tests.a"])
        self.assertEqual(self.outcomes(folder, "other").missing(1, ["tests.a"]), ["tests.a"])

    def test_a_changed_test_module_is_begun_anew_alone(self) -> None:
        """Any other file may bear on all modules, as does a test module that another one imports."""
        root = Path(self.mktemp())
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        (root / "tests" / "a").mkdir(parents=True)
        for name in ("code.py", "tests/a/test_one.py", "tests/a/test_base.py", "tests/a/test_more.py"):
            (root / name).write_text("def test_one_thing(): ...")
        (root / "tests/a/test_two.py").write_text("from tests.a import test_more\nfrom tests.a.test_base import Base")
        names = ("tests.a.test_one", "tests.a.test_one.OneTests.test_it", "tests.a.test_two", "tests.a.test_base")

        def changed(name: str) -> list[bool]:
            before = TreeState.read(root)
            (root / name).write_text((root / name).read_text() + "\n")
            after = TreeState.read(root)
            return [before.of(each) != after.of(each) for each in names]

        self.assertEqual(changed("tests/a/test_one.py"), [True, True, False, False])
        self.assertEqual(changed("tests/a/test_two.py"), [False, False, True, False])
        self.assertEqual(changed("tests/a/test_base.py"), [True] * 4)
        self.assertEqual(changed("tests/a/test_more.py"), [True] * 4)
        self.assertEqual(changed("code.py"), [True] * 4)
        self.assertEqual(TreeState.read(root), TreeState.read(root))

    def test_those_that_took_longest_begin_first(self) -> None:
        """By what they took last, whatever the files were then; what has never run begins last."""
        folder = self.mktemp()
        found = self.outcomes(folder)
        for module, seconds in (("tests.a", 5.0), ("tests.b", 1.0), ("tests.c", 9.0), ("tests.b", 7.0)):
            found.add(1, False, attrs.evolve(done(module), seconds=seconds))
        modules = ["tests.never", "tests.a", "tests.b", "tests.c"]
        for each in (found, self.outcomes(folder, "other")):
            self.assertEqual(each.dearest_first(modules), ["tests.c", "tests.b", "tests.a", "tests.never"])

    def test_a_run_that_ends_is_not_held_back_by_those_before_it(self) -> None:
        """Else an interruption would lose what has ended; those that have not begun are left out then."""
        told = threading.Event()
        begun: list[str] = []

        def run(module: str, patience: float) -> TrialRun:
            begun.append(module)
            if module != "tests.quick":
                told.wait(60)
            return done(module)

        self.patch(flakes, "run_trial", run)
        with ThreadPoolExecutor(2) as pool:
            runs = in_any_order(pool, ["tests.slow", "tests.quick", "tests.next", "tests.last"], 60)
            self.assertEqual(next(runs).module, "tests.quick")
            runs.close()
            told.set()
        self.assertNotIn("tests.last", begun)

    def test_one_failure_among_many_makes_the_status_1(self) -> None:
        """The output of the failed run is kept."""
        folder = self.mktemp()
        found = self.outcomes(folder)
        for run in range(1, 10):
            found.add(run, run % 2 == 0, done("tests.a", int(run == 4)))
        self.assertEqual(report(found, ["tests.a"], 9), 1)
        self.assertEqual(report(found, ["tests.a"], 3), 0)
        self.assertEqual(Path(folder, "tests.a-4.log").read_text(), "what it printed")

    def test_a_first_run_behind_the_last_is_an_error(self) -> None:
        """Nothing would run, and the status would say that all is well."""
        for first in ("11", "0"):
            with redirect_stderr(StringIO()) as errors, self.assertRaises(SystemExit) as ended:
                flakes.main(["--runs", "10", "--from-run", first])
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(f"--from-run {first} is not among the runs 1 to 10", errors.getvalue())

    def test_costs_name_the_dearest_module_first(self) -> None:
        """Each with the mean of its runs; the last line is their sum. They are kept from run to run."""
        folder = self.mktemp()
        found = self.outcomes(folder)
        for run, seconds in enumerate((10.0, 20.0), 1):
            found.add(run, False, done("tests.a", processor_seconds=seconds / 10))
            found.add(run, False, done("tests.b", processor_seconds=seconds))
        lines = costs(self.outcomes(folder), ["tests.a", "tests.b", "tests.never"])
        self.assertEqual([line.split()[-1] for line in lines[:-1]], ["tests.b", "tests.a"])
        self.assertEqual(lines[0].split()[0], "15.0")
        self.assertIn("16 s of processors in a run of all 2 modules", lines[-1])

    def test_processes_of_a_load_end_with_it(self) -> None:
        """They run while the load is wanted."""
        with Load() as load:
            processes = load._processes
            self.assertTrue(all(process.poll() is None for process in processes))
        self.assertTrue(all(process.poll() is not None for process in processes))

    def test_each_process_of_a_load_has_a_session_of_its_own(self) -> None:
        """Linux may share the processors among sessions first: in one session, they would weigh as much as one."""
        with Load() as load:
            sessions = {os.getsid(process.pid) for process in load._processes}
            self.assertEqual(sessions, {process.pid for process in load._processes})


class SoakTests(SynchronousTestCase):
    """The random tests in turn."""

    def test_every_exercise_names_a_module_and_its_variables(self) -> None:
        """The module exists, and some module of the tests reads each variable."""
        endurance = ROOT / "tests" / "endurance"  # has the names as well, and reads none of them
        modules = (path for path in (ROOT / "tests").rglob("*.py") if endurance not in path.parents)
        sources = "".join(path.read_text() for path in modules)
        for exercise in EXERCISES:
            words = exercise.module.split(".")
            self.assertTrue(any(Path(ROOT, *words[:n]).with_suffix(".py").exists() for n in range(1, len(words) + 1)))
            for name in exercise.environment(1):
                self.assertTrue(f'"{name}"' in sources, name)

    def run_soak(self, turns: int, failing: int) -> tuple[list[str], list[str]]:
        """Run two exercises for so many turns, of which one fails; return the report and the turns that were kept."""
        ran: list[str] = []
        kept: list[str] = []

        def run(module: str, environment: dict[str, str]) -> TrialRun:
            ran.append(json.dumps(environment))
            return done(module, int(len(ran) == failing))

        exercises = tuple(Exercise(name, name, "lives", 10, lambda seed: {"SEED": str(seed)}) for name in "ab")
        tallies = soak(
            exercises,
            lambda: len(ran) >= turns,
            itertools.count(100, 10),
            run,
            lambda line: None,
            lambda exercise, seed, run: kept.append(f"{exercise.name} {seed}"),
        )
        self.assertEqual(len(ran), max(turns, len(exercises)))
        return soak_report(tallies), kept

    def test_every_round_has_new_seeds(self) -> None:
        """A failure does not end the run, and is reported with the command that repeats it."""
        lines, kept = self.run_soak(4, failing=3)
        self.assertEqual(kept, ["a 110"])
        self.assertIn("  again by: SEED=110 python -m twisted.trial a", lines)
        self.assertEqual(lines[-1], "3 passed, 1 failed")

    def test_every_exercise_has_a_turn(self) -> None:
        """The time may be over at once."""
        self.assertEqual(self.run_soak(0, failing=0)[0][-1], "2 passed, 0 failed")
