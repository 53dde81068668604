"""Tests of logd.testing.processes.server: processes that end by themselves, or do not end when asked to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import LogdError
from logd.testing.processes.mirror import MirrorProcess

#: Says that it ignores SIGTERM, and goes on until it is killed.
_STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); sys.stdin.read()"
)
#: Has several threads that never rest.
_BUSY = """
import os, threading

def work():
    while True:
        os.stat("/")

for _ in range(3):
    threading.Thread(target=work).start()
print("ready", flush=True)
"""


class ServerProcessTests(SynchronousTestCase):
    """One process of Python in place of a server."""

    def server(self, program: str, patience: float = 120.0) -> MirrorProcess:
        """Return a server, started, whose process runs this program."""
        server = MirrorProcess((), self.mktemp(), patience=patience)
        server.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for pipe in (server.process.stdin, server.process.stdout):
            assert pipe is not None
            self.addCleanup(pipe.close)
        self.addCleanup(server.kill)
        return server

    def test_a_process_that_is_killed_is_waited_for(self) -> None:
        """Its end is sure, so no patience limits how long a busy machine takes for it."""
        server = self.server(_STUBBORN)
        server.patience = 0.0
        self.assertEqual(server.kill(), -9)

    def test_a_process_that_does_not_stop_is_killed(self) -> None:
        """The caller is told, and nothing is left running."""
        server = self.server(_STUBBORN, 0.1)
        process = server.process
        assert process is not None and process.stdout is not None
        process.stdout.readline()
        self.assertRaises(subprocess.TimeoutExpired, server.stop)
        self.assertEqual(process.returncode, -9)

    def test_a_process_that_is_paused_stands_still(self) -> None:
        """All its threads do, and not only soon: a test that looks at once must see nothing of it any more."""
        server = self.server(_BUSY)
        process = server.process
        assert process is not None and process.stdout is not None
        process.stdout.readline()
        for _ in range(20):
            server.pause()
            threads = [each.read_text() for each in Path(f"/proc/{process.pid}/task").glob("*/stat")]
            states = [each.rpartition(")")[2].split()[0] for each in threads]
            self.assertEqual(states, ["T"] * len(states))
            server.resume()

    def test_a_process_that_has_ended_by_itself_is_named_with_its_log(self) -> None:
        """One that runs, and one that was not started or was stopped, is no error."""
        server = self.server("raise SystemExit(3)")
        with open(server.log, "w", encoding="utf-8") as log:
            log.write("no such cluster")
        assert server.process is not None
        server.process.wait()
        error = self.assertRaises(LogdError, server.check_runs)
        self.assertEqual(str(error), "a server ended with status 3: no such cluster")
        server.stop()
        server.check_runs()
        running = self.server(_STUBBORN)
        running.check_runs()
