"""Tests of examples/systemd and examples/airflow: their files are read, and their command lines are those of logd."""

from __future__ import annotations

import runpy
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.spark.import_command import import_

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SYSTEMD = EXAMPLES / "systemd"


def parsed(command: list[str]) -> dict[str, Any]:
    """Return the options that ``logd import`` reads from a command line. Raises click's errors."""
    if command[1] != "import" or Path(command[0]).name != "logd":
        raise ValueError(command)
    with import_.make_context("import", command[2:]) as context:
        return context.params


class SystemdTests(SynchronousTestCase):
    """The service and timer of a daily import."""

    def test_the_service_runs_commands_that_logd_knows(self) -> None:
        """First the import, then the merging of its small files, in one target."""
        lines = (SYSTEMD / "logd-import.service").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        commands = [parsed(shlex.split(line.partition("=")[2])) for line in lines if line.startswith("ExecStart=")]
        self.assertEqual([each["unit"] for each in commands], [None, "date"])
        self.assertEqual(len({each["to"] for each in commands}), 1)
        self.assertTrue(commands[0]["metrics"].endswith(".prom"))

    def test_the_timer_is_a_timer(self) -> None:
        """It names an hour, and makes up for a missed one."""
        timer = ConfigParser(interpolation=None)
        timer.read(SYSTEMD / "logd-import.timer")
        self.assertEqual(timer["Timer"]["Persistent"], "true")
        self.assertIn("UTC", timer["Timer"]["OnCalendar"])

    def test_systemd_accepts_the_units(self) -> None:
        """Only the command's place, which differs from machine to machine, is put in."""
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        for name in ("logd-import.service", "logd-import.timer"):
            text = (SYSTEMD / name).read_text(encoding="utf-8")
            (folder / name).write_text(text.replace("/opt/logd/bin/logd", sys.executable), encoding="utf-8")
        units = [str(folder / name) for name in ("logd-import.service", "logd-import.timer")]
        done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class FakeOperator:
    """Airflow's BashOperator, as far as the example uses it: it records what it is given, and the order of tasks."""

    made: ClassVar[list[FakeOperator]] = []

    def __init__(self, *, task_id: str, bash_command: str, skip_on_exit_code: int) -> None:
        self.task_id, self.bash_command, self.skip_on_exit_code = task_id, bash_command, skip_on_exit_code
        self.following: list[str] = []
        self.made.append(self)

    def __rshift__(self, other: FakeOperator) -> None:
        self.following.append(other.task_id)


class FakeDag:
    """Airflow's DAG, which a ``with`` statement enters."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings

    def __enter__(self) -> FakeDag:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class AirflowTests(SynchronousTestCase):
    """The DAG of a daily import, over doubles of Airflow's two classes."""

    def test_the_tasks_run_commands_that_logd_knows(self) -> None:
        """Load, check, merge, one after the other; days that were missed need no runs of their own."""
        self.patch(FakeOperator, "made", [])
        for name, names in (("airflow", {"DAG": FakeDag}), ("airflow.operators.bash", {"BashOperator": FakeOperator})):
            module = ModuleType(name)
            vars(module).update(names)
            self.addCleanup(sys.modules.pop, name)
            sys.modules[name] = module
        found = runpy.run_path(str(EXAMPLES / "airflow" / "logd_daily_import.py"))
        self.assertEqual((found["dag"].settings["catchup"], found["dag"].settings["max_active_runs"]), (False, 1))
        tasks = FakeOperator.made
        self.assertEqual(
            [(each.task_id, each.following) for each in tasks],
            [("load", ["check"]), ("check", ["compact"]), ("compact", [])],
        )
        options = [parsed(shlex.split(each.bash_command)) for each in tasks]
        self.assertEqual(
            [(each["verify"], each["unit"]) for each in options], [(False, None), (True, None), (False, "date")]
        )
        self.assertEqual(len({each["to"] for each in options}), 1)
        self.assertEqual({each.skip_on_exit_code for each in tasks}, {4})
