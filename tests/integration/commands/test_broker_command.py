"""``logd broker`` and ``python -m logd``: a broker in the foreground, as new users start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import free_port

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 120.0


class BrokerCommandTests(SynchronousTestCase):
    """A broker process whose output is what a person sees."""

    def setUp(self) -> None:
        """Choose ports and a data directory; take LOGD_ variables out of the environment."""
        self.port, self.tree = free_port(), free_port()
        self.data = os.path.abspath(self.mktemp())
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        self.env["PYTHONPATH"] = str(ROOT)
        self.log = Path(f"{self.data}.log")

    def start(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Begin ``python -m logd broker``; its output goes to ``self.log``."""
        listen = f"--listen=tcp:{self.port}:interface=127.0.0.1"
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "logd", "broker", "--data", self.data, listen, *options],
                env={**self.env, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, text: str, process: subprocess.Popen[bytes]) -> None:
        """Return once the broker's output contains ``text``."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.log.read_text(encoding="utf-8"):
            self.assertIsNone(process.poll(), self.log.read_text(encoding="utf-8"))
            self.assertLess(time.monotonic(), deadline, self.log.read_text(encoding="utf-8"))
            time.sleep(0.02)

    def logd(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "logd", *arguments],
            input=given,
            env={**self.env, "LOGD_BROKER": f"127.0.0.1:{self.port}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def test_the_broker_serves_and_stops_in_order(self) -> None:
        """It names the address of its tree; SIGTERM and Ctrl-C end it with everything flushed."""
        for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)):
            process = self.start(f"--zookeeper-listen=tcp:{self.tree}:interface=127.0.0.1")
            self.wait_for("serves 0 partitions" if number == signal.SIGTERM else "serves 1 partition of", process)
            self.assertEqual(self.logd("produce", "greetings", given="hello\n").returncode, 0)
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE), status)
            said = self.log.read_text(encoding="utf-8")
            self.assertIn(f"serves the coordination tree at 127.0.0.1:{self.tree}", said)
            self.assertIn("stopped; every partition is flushed", said)

    def test_a_closed_terminal_stops_the_broker_in_order(self) -> None:
        """The terminal sends SIGHUP, whose default would end the broker without a checkpoint."""
        process = self.start(f"--zookeeper-listen=tcp:{self.tree}:interface=127.0.0.1")
        self.wait_for("serves 0 partitions", process)
        self.assertEqual(self.logd("produce", "greetings", given="hello\n").returncode, 0)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertIn("stopped; every partition is flushed", self.log.read_text(encoding="utf-8"))

    def test_the_commands_environment_does_not_stop_the_broker(self) -> None:
        """LOGD_ZOOKEEPER names the broker's own tree; it must serve that tree and not wait for it."""
        process = self.start(
            f"--set=zookeeper.listen=tcp:{self.tree}:interface=127.0.0.1", LOGD_ZOOKEEPER=f"127.0.0.1:{self.tree}"
        )
        self.wait_for("serves the coordination tree", process)
        self.assertEqual(self.logd("produce", "greetings", given="hello\n").returncode, 0)

    def test_the_log_names_the_tree_that_is_joined(self) -> None:
        """It says where the address came from: a variable is easily forgotten."""
        hosts = f"127.0.0.1:{self.tree}"
        self.wait_for(f"joins the coordination tree at {hosts}: LOGD_ZOOKEEPER", self.start(LOGD_ZOOKEEPER=hosts))

    def test_wrong_use_ends_with_one_sentence(self) -> None:
        """It is the last line, and stands there once, also when twistd is called without arguments."""
        done = self.logd("broker", "--data", self.data, "--id", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("id = 'x' is not allowed", done.stderr.splitlines()[-1])
        twistd = [str(Path(sys.executable).with_name("twistd")), "-n", "logd"]
        bare = subprocess.run(twistd, env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((bare.returncode, bare.stdout), (2, ""))
        self.assertEqual(len(bare.stderr.splitlines()), 2, bare.stderr)
        self.assertIn("give --data", bare.stderr)

    def test_the_reason_of_a_failed_start_is_said_once(self) -> None:
        """In the foreground the log is what a person reads, and a line on stderr would stand beside it."""
        Path(self.data).touch()
        done = self.logd("broker", "--data", self.data, "--zookeeper-listen=tcp:0:interface=127.0.0.1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual((done.stdout + done.stderr).count("is a file"), 1, done.stdout + done.stderr)

    def test_an_unreachable_broker_error_names_the_start_command(self) -> None:
        """A new user's first command may well be this one."""
        done = self.logd("topics", "list")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot connect to the broker", done.stderr)
        self.assertIn("`logd broker --data DIR` starts one", done.stderr)
