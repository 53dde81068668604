"""The programs and commands of README and first steps, run as written against a real broker (but for the address)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess

ROOT = Path(__file__).resolve().parents[3]
#: Reads back what the program that observes an application's log has published.
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
    """What a new user copies works."""

    def setUp(self) -> None:
        """A real broker."""
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.broker = BrokerProcess(f"{folder.name}/data").start()
        self.addCleanup(self.broker.kill)

    def run_program(self, program: str) -> str:
        """Run a program in a process of its own, and return what it printed."""
        finished = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:6667", self.broker.address)],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
        )
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        return finished.stdout

    def test_there_are_five(self) -> None:
        """The programs are found: the other tests do not pass because there was nothing to run."""
        self.assertEqual(len(programs()), 5)

    def test_async(self) -> None:
        """The paper's example with ``async`` prints the message."""
        self.assertEqual(self.run_program(programs()[0]), "b'test message str'\n")

    def test_deferreds(self) -> None:
        """The example with Deferreds says where the message is stored, and prints it."""
        self.assertEqual(self.run_program(programs()[1]), "stored at 0 0\nb'test message str'\n")

    def test_blocking(self) -> None:
        """The blocking example prints the message."""
        self.assertEqual(self.run_program(programs()[2]), "b'test message str'\n")

    def test_observer(self) -> None:
        """An application's log event arrives in the topic, as JSON."""
        self.run_program(programs()[3])
        printed = self.run_program(READ_APP_LOG)
        self.assertIn('"what": "tea"', printed)

    def test_first_steps(self) -> None:
        """Lines that are piped into ``logd produce`` come out of ``logd consume``."""
        scripts = Path(sys.executable).parent
        environment = {**os.environ, "LOGD_BROKER": self.broker.address, "PATH": f"{scripts}:{os.environ['PATH']}"}
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        commands = re.findall(
            r"^\$ (printf .*logd produce greetings.*|logd consume greetings.*|logd topics list)$", readme, re.M
        )
        self.assertEqual(len(commands), 3)
        printed = [
            subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=60).stdout
            for command in commands
        ]
        self.assertEqual(printed[1], "one\ntwo\nthree\n")
        self.assertIn("greetings", printed[2])
