"""Real servers under a supervisor of systemd's protocol, and the units in contrib/systemd."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.client.producer.producer import Producer
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess
from tests.integration.background import BackgroundTestCase
from tests.supervision.doubles import Supervisor

CLOCK: Any = reactor
UNITS = Path(__file__).resolve().parents[3] / "contrib" / "systemd"
#: The time of the watchdog in microseconds: short, and longer than a busy machine lets a process wait.
WATCHDOG_USEC = 900_000


class SupervisedServerTests(BackgroundTestCase):
    """A supervisor at a real datagram socket."""

    timeout = 240

    def setUp(self) -> None:
        """Listen as systemd does."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.supervisor = Supervisor(f"{folder.name}/notify")
        self.addCleanup(self.supervisor.close)
        self.told: list[dict[str, str]] = []
        self.environment = (f"NOTIFY_SOCKET={folder.name}/notify", f"WATCHDOG_USEC={WATCHDOG_USEC}")

    def heard(self, name: str) -> list[str]:
        """Return the values of this name in all that was told."""
        self.told += self.supervisor.told()
        return [lines[name] for lines in self.told if name in lines]

    async def test_the_life_of_a_broker(self) -> None:
        """Opening, ready once it serves, signs of life while its reactor turns and no longer, stopping."""
        broker = BrokerProcess(f"{self.folder}/data", wrap=("env", *self.environment))
        self.addCleanup(broker.kill)
        broker.start()
        await self.until(lambda: bool(self.heard("READY")))
        self.assertIn(f"opening the logs in {self.folder}/data", self.heard("STATUS"))
        producer = Producer(broker.address, reactor=reactor)
        await producer.send("clicks", b"served")
        await producer.close()
        await self.until(lambda: len(self.heard("WATCHDOG")) > 2)
        await self.until(lambda: "ok: serves 1 partition, 0 connections" in self.heard("STATUS"))
        broker.pause()
        self.heard("WATCHDOG")
        self.told.clear()
        await deferLater(CLOCK, WATCHDOG_USEC / 1_000_000)
        self.assertEqual(self.heard("WATCHDOG"), [])
        broker.resume()
        await self.until(lambda: bool(self.heard("WATCHDOG")))
        self.assertEqual(broker.stop(), 0)
        self.assertEqual(self.heard("STOPPING"), ["1"])
        self.assertEqual(self.heard("READY"), [])

    async def test_a_broker_that_cannot_start_is_never_ready(self) -> None:
        """A supervisor sees its exit status instead."""
        Path(f"{self.folder}/data").write_text("in the way")
        broker = BrokerProcess(f"{self.folder}/data", wrap=("env", *self.environment), log_path=f"{self.folder}/log")
        process = subprocess.run([*broker.command], env={**os.environ, **self._variables()}, capture_output=True)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(self.heard("READY"), [])

    async def test_the_life_of_a_tree(self) -> None:
        """``logd zookeeper`` reports in the same way."""
        for name, value in self._variables().items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        tree = CoordinationProcess(f"{self.folder}/tree")
        self.addCleanup(tree.kill)
        tree.start()
        await self.until(lambda: bool(self.heard("READY") and self.heard("WATCHDOG")))
        self.assertTrue(self.heard("STATUS")[0].startswith("serves "), self.told)
        self.assertEqual(tree.stop(), 0)
        self.assertEqual(self.heard("STOPPING"), ["1"])

    def _variables(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.environment)


class UnitTests(SynchronousTestCase):
    """The units as systemd reads them."""

    def test_systemd_accepts_the_units(self) -> None:
        """No unknown setting, no wrong value; the program's path is that of this installation."""
        if shutil.which("systemd-analyze") is None:
            raise SkipTest("systemd-analyze is not installed")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        program = shutil.which("true")
        for unit in sorted(UNITS.glob("*.service")):
            text = unit.read_text(encoding="utf-8").replace("/opt/logd/bin/logd", str(program))
            Path(folder, unit.name).write_text(text, encoding="utf-8")
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", f"{folder}/{unit.name}"], capture_output=True, text=True
            )
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), unit.name)
            self.assertIn("Type=notify\n", text)
            self.assertIn("WatchdogSec=", text)
