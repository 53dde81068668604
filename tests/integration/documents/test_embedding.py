"""The programs of docs/embedding.md, run by twistd as they stand there, except for ports and folder."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "embedding.md"
#: The longest wait, in seconds.
PATIENCE = 120.0


class EmbeddingTests(SynchronousTestCase):
    """Programs that a new user copies."""

    def setUp(self) -> None:
        """Make a folder, and take the programs from the page."""
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.alarms, self.shop = re.findall(
            r"^```python \w+\.tac\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
        )

    def twistd(self, program: str) -> subprocess.Popen[bytes]:
        """Begin an application in a process of its own, which is killed with the test at the latest."""
        (self.folder / "program.tac").write_text(program, encoding="utf-8")
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("twistd"), "-n", "--pidfile=", "-y", "program.tac"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process

    @property
    def log(self) -> Path:
        """The application's log."""
        return self.folder / "twistd.log"

    def logd(self, address: str, *arguments: str, given: bytes = b"") -> bytes:
        """Run a command that must succeed; return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "logd.cli", *arguments, "--broker", address],
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            env=self.environment,
        )
        self.assertEqual(done.returncode, 0, (done.stderr, self.log.read_text()))
        return done.stdout

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM, and check that the application ends in order, with no error in its log."""
        process.terminate()
        process.wait(PATIENCE)
        log = self.log.read_text(encoding="utf-8")
        self.assertIn("Server Shut Down", log)
        self.assertNotIn("Traceback", log)
        self.assertNotIn("Unhandled", log)

    def test_the_alarms_service_publishes_and_commits(self) -> None:
        """It copies the lines with an error to another topic; when it stops, its group's position is committed."""
        broker = BrokerProcess(str(self.folder / "data")).start()
        self.addCleanup(broker.kill)
        program = self.alarms.replace("127.0.0.1:6667", broker.address).replace("127.0.0.1:2181", broker.coordination)
        process = self.twistd(program)
        self.logd(broker.address, "produce", "events", given=b"fine\nan error\nfine\nerror 2\n")
        printed = self.logd(broker.address, "consume", "alarms", "--max", "2")
        self.assertEqual(printed, b"an error\nerror 2\n")
        self.end(process)
        _, _, position, log_end, *_, owner, _ = self.described(broker.coordination)
        # The message in hand at the end counts as not handled, though its alarm was published already.
        self.assertIn(position, ("85", "115"))
        self.assertEqual((log_end, owner), ("115", ""))

    def described(self, zookeeper: str) -> list[str]:
        """Return the columns of the group's only line, once it has no members."""
        done = subprocess.run(
            [sys.executable, "-m", "logd.cli", "groups", "describe", "alarms", "--zookeeper", zookeeper],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            env=self.environment,
        )
        return done.stdout.split("\t")

    def test_the_shop_runs_a_broker_in_its_process(self) -> None:
        """Its messages can be read from outside, and one SIGTERM stops broker and application in order."""
        port, tree = free_port(), free_port()
        here = "interface=127.0.0.1"
        settings = f'data="shop", listen="tcp:{port}:{here}", zookeeper_listen="tcp:{tree}:{here}", '
        program = self.shop.replace('data="/var/lib/shop", ', settings).replace("127.0.0.1:6667", f"127.0.0.1:{port}")
        self.assertIn(settings, program)
        process = self.twistd(program)
        self.wait_for(port, process)
        self.assertEqual(self.logd(f"127.0.0.1:{port}", "consume", "beats", "--max", "2"), b"beat\nbeat\n")
        self.end(process)
        self.assertIn("stopped; every partition is flushed", self.log.read_text(encoding="utf-8"))

    def wait_for(self, port: int, process: subprocess.Popen[bytes]) -> None:
        """Return once the application listens at ``port``."""
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        self.fail(self.log.read_text(encoding="utf-8"))
