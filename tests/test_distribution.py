"""Tests of tests.distribution: which tests share a process, in which order, and the exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.distribution import LONGEST, groups_of

ROOT = Path(__file__).resolve().parent.parent
#: A module of three tests, each of which says in which process it ran.
MODULE = """
import os
from twisted.trial.unittest import TestCase
class T(TestCase):
    def note(self):
        with open(os.environ["NOTES"], "a") as file:
            print(__name__, os.getpid(), file=file)
    test_1 = test_2 = note
    def test_3(self):
        self.note()
        {end}
"""


class GroupTests(SynchronousTestCase):
    """The tests that stay together."""

    def test_the_longest_come_first_and_the_others_stay_in_order(self) -> None:
        """A module is one group; so are all tests with a base class that is named."""

        class Shared(SynchronousTestCase):
            test_it = test_too = lambda self: None

        class Alone(SynchronousTestCase):
            test_it = lambda self: None  # noqa: E731

        Alone.__module__ = "another.module"
        named = f"{Shared.__module__}.{Shared.__qualname__}"
        shared, alone = [Shared("test_it"), Shared("test_too")], Alone("test_it")
        mine = GroupTests("test_the_longest_come_first_and_the_others_stay_in_order")
        self.assertEqual(groups_of([alone, shared[0], mine, shared[1]], [named]), [shared, [alone], [mine]])

    def test_every_name_is_one_of_a_module_or_a_class(self) -> None:
        """A module that has moved would come late and unnoticed."""
        for name in LONGEST:
            module, _, last = name.rpartition(".")
            self.assertTrue(
                Path(ROOT, *name.split(".")).with_suffix(".py").exists() or hasattr(import_module(module), last), name
            )


class RunTests(SynchronousTestCase):
    """Runs of modules outside the project, by two processes."""

    def run_modules(self, **ends: str) -> tuple[subprocess.CompletedProcess[str], dict[str, set[str]]]:
        """Run modules whose last test ends so; return the run, and for each module its processes."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        for name, end in ends.items():
            (folder / f"{name}.py").write_text(MODULE.format(end=end))
        notes = folder / "notes"
        done = subprocess.run(
            [sys.executable, "-m", "tests.distribution", "--jobs", "2", *ends],
            cwd=folder,
            env={**os.environ, "NOTES": str(notes), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
            capture_output=True,
            text=True,
            check=False,
        )
        found: dict[str, set[str]] = {}
        for line in notes.read_text().splitlines():
            module, process = line.split()
            found.setdefault(module, set()).add(process)
        return done, found

    def test_the_tests_of_a_module_share_a_process(self) -> None:
        """Another module has the other process meanwhile; trial's own closing line ends the output."""
        done, found = self.run_modules(one="pass", two="pass")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("PASSED (successes=6)\n"), done.stdout)
        self.assertEqual([len(found[name]) for name in ("one", "two")], [1, 1])
        self.assertNotEqual(found["one"], found["two"])

    def test_files_that_are_not_trials_own_end_the_run(self) -> None:
        """Trial does not remove such a folder, and says so. It fails before its reactor runs, and waited for ever."""
        folder = Path(self.mktemp()).absolute()
        (folder / "_trial_temp").mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.distribution", "--jobs", "1", "tests.test_plurals"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("_trial_temp", done.stderr)

    def test_a_failure_makes_the_status_1(self) -> None:
        """So does a process that ends in the middle of a test."""
        done, _ = self.run_modules(one="pass", two="self.fail('so be it')")
        self.assertEqual(done.returncode, 1)
        self.assertIn("so be it", done.stdout)
        done, _ = self.run_modules(one="pass", two="os._exit(0)")
        self.assertEqual(done.returncode, 1)
