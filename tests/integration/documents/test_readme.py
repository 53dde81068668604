"""The programs and commands of README and first steps, run as written, except for the broker's address."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
#: Prints the first message of the program that observes an application's log.
READ_APP_LOG = """
from twisted.internet.task import react
from logd import Consumer
(stream,) = Consumer("127.0.0.1:6667").create_message_streams("app-log", 1)
react(lambda reactor: stream.get().addCallback(lambda message: print(message.payload.decode())))
"""


def programs() -> list[str]:
    """Return the Python programs of the README and of the page that goes on with it."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/first-steps.md"))
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


class ReadmeTests(SynchronousTestCase):
    """Programs and commands that a new user copies."""

    def setUp(self) -> None:
        """Start a real broker."""
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.broker = BrokerProcess(f"{folder.name}/data").start()
        self.addCleanup(self.broker.kill)

    def run_program(self, program: str) -> str:
        """Run a program in a process of its own, which must succeed, and return its output."""
        finished = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:6667", self.broker.address)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=ROOT,
        )
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        return finished.stdout

    def test_five_programs_are_found(self) -> None:
        """The other tests take them by number, and must not run the wrong one."""
        self.assertEqual(len(programs()), 5)

    def test_the_example_with_async_prints_its_message(self) -> None:
        """It is the paper's example, and the first program that a reader sees."""
        self.assertEqual(self.run_program(programs()[0]), "b'test message str'\n")

    def test_the_example_with_deferreds_prints_its_message(self) -> None:
        """It also prints the partition and id at which the message was stored."""
        self.assertEqual(self.run_program(programs()[1]), "stored at 0 0\nb'test message str'\n")

    def test_the_blocking_example_prints_its_message(self) -> None:
        """It must end by itself, though the reactor runs in a thread."""
        self.assertEqual(self.run_program(programs()[2]), "b'test message str'\n")

    def test_the_observer_publishes_a_log_event_as_json(self) -> None:
        """Another process reads the event from the topic."""
        self.run_program(programs()[3])
        printed = self.run_program(READ_APP_LOG)
        self.assertIn('"what": "tea"', printed)

    def test_piped_lines_come_out_of_consume(self) -> None:
        """The README's three commands run in a shell, with ``logd`` found by PATH."""
        scripts = Path(sys.executable).parent
        environment = {**os.environ, "LOGD_BROKER": self.broker.address, "PATH": f"{scripts}:{os.environ['PATH']}"}
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        commands = re.findall(
            r"^\$ (printf .*logd produce greetings.*|logd consume greetings.*|logd topics list)$", readme, re.M
        )
        self.assertEqual(len(commands), 3)
        printed = [
            subprocess.run(
                command, shell=True, env=environment, capture_output=True, text=True, timeout=PATIENCE
            ).stdout
            for command in commands
        ]
        self.assertEqual(printed[1], "one\ntwo\nthree\n")
        self.assertIn("greetings", printed[2])
