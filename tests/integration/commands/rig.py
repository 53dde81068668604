"""Test cases for the commands at real brokers, each command a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from twisted.trial.unittest import SynchronousTestCase

from logd.coord import paths
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import run_python, start_python
from tests.integration.shared_servers import shared
from tests.integration.topics import create_topic, delete_topic, fill_topic, read_partition, topic_names

ROOT = Path(__file__).resolve().parents[3]
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
PATIENCE = 120
#: Seconds between two looks at what a test waits for.
POLL_SECONDS = 0.02


class CommandTestCase(SynchronousTestCase):
    """Commands of logd, each a process of its own, with the environment ``env``."""

    #: The longest time of a command, in seconds.
    patience = PATIENCE

    def setUp(self) -> None:
        """Make the environment."""
        self.env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def logd(self, *arguments: str, given: bytes = b"", status: int = 0) -> bytes:
        """Run a command to its end, check its exit status, and return its output; stderr is kept in ``errors``."""
        done: subprocess.CompletedProcess[bytes] = run_python(
            [*LOGD, *arguments], input=given, capture_output=True, env=self.env, timeout=self.patience, check=False
        )
        self.errors = done.stderr.decode()
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command with pipes; it is killed with the test at the latest."""
        process = start_python(
            [*LOGD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def refused(self, status: int, *commands: tuple[list[str], str]) -> None:
        """Run commands side by side; check that each ends with the status, and one line on stderr with the words."""
        processes = [self.begin(*arguments) for arguments, _ in commands]
        for process, (arguments, words) in zip(processes, commands, strict=True):
            _, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, status, (arguments, errors))
            self.assertIn(words, errors.decode())
            self.assertEqual(errors.count(b"\n"), 1, errors)


class CliTestCase(CommandTestCase):
    """A broker and its address in LOGD_BROKER."""

    _tree: Any = None

    def setUp(self) -> None:
        """Start a broker over an empty data directory."""
        super().setUp()
        self.broker = self.start_broker()
        self.env["LOGD_BROKER"] = self.broker.address

    def start_broker(self) -> BrokerProcess:
        """Return a broker that stops cleanly at the end of the test."""
        broker = BrokerProcess(os.path.abspath(self.mktemp())).start()
        self.addCleanup(lambda: self.assertEqual(broker.stop(), 0))
        return broker

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Poll until ``holds()``; fail with ``what`` after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"waited {PATIENCE} seconds for {what}")
            time.sleep(POLL_SECONDS)

    def node(self, path: str) -> dict[str, bytes]:
        """Return the children of a node of the tree with their values, none where there is no such node.

        Without a command: it costs the tree's client one connection, and looks as often as a test likes.
        """
        tree, found = self.tree(), {}
        with contextlib.suppress(NoNodeError):
            for child in tree.get_children(path):
                with contextlib.suppress(NoNodeError):  # it was removed meanwhile
                    found[child] = tree.get(f"{path}/{child}")[0]
        return found

    def tree(self) -> Any:
        """Return a client of the broker's tree, which this test keeps."""
        if self._tree is None:
            self._tree = KazooClient(self.broker.coordination, timeout=10)
            self._tree.start(PATIENCE)
            self.addCleanup(self._tree.close)
            self.addCleanup(self._tree.stop)
        return self._tree

    def create(self, topic: str, partitions: int = 1, **settings: int) -> None:
        """Create a topic without a command."""
        create_topic(self.broker.address, topic, partitions, **settings)

    def fill(self, topic: str, lines: bytes, partition: int = 0, compression: str = "none") -> None:
        """Send every line as a message without a command."""
        fill_topic(self.broker.address, topic, lines.split(b"\n")[:-1], partition, compression)

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """Return the values of a partition's messages, read without a command."""
        return [value for _, value in read_partition(self.broker.address, topic, partition)]

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the records that a consume command writes as JSON."""
        return [json.loads(line) for line in self.logd("consume", *arguments, "--format", "json").splitlines()]


def shared_broker() -> BrokerProcess:
    """Return the broker of all tests of commands that leave it as it was."""
    return shared(BrokerProcess, "commands")


@functools.cache
def shared_tree() -> Any:
    """Return a client of that broker's tree."""
    tree = KazooClient(shared_broker().coordination, timeout=10)
    tree.start(PATIENCE)
    atexit.register(tree.stop)
    return tree


class SharedBrokerTestCase(CliTestCase):
    """The broker of all such tests in a process. None may stop or harm it, and each leaves it without topics."""

    def start_broker(self) -> BrokerProcess:
        """Return the broker, which is emptied at the end of the test."""
        self.addCleanup(self.empty)
        return shared_broker()

    def tree(self) -> Any:
        """Return the client of its tree."""
        return shared_tree()

    def empty(self) -> None:
        """Delete all topics and groups."""
        for topic in topic_names(self.broker.address):
            delete_topic(self.broker.address, topic)
        for group in self.node(paths.CONSUMERS):
            self.tree().delete(paths.group(group), recursive=True)
