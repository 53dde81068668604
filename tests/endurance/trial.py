"""A test module run by trial in a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

from logd.testing.processes.python_process import PRELOADED, ForkedProcess, ForkServer, forks

ROOT = Path(__file__).resolve().parent.parent.parent
#: Runs trial, and says in a last line what it and the processes that it waited for took of the processors.
_TIMED = """
import atexit, resource

def say():
    taken = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("processor seconds:", sum(each.ru_utime + each.ru_stime for each in taken), flush=True)

atexit.register(say)

from twisted.scripts.trial import run

run()
"""
_TIMES = re.compile(r"^processor seconds: (\S+)\n\Z", re.M)
#: The modules that each run needs, whatever it tests.
_PRELOADED = (*PRELOADED, "twisted.scripts.trial", "tests")
_CLOSING = re.compile(r"^(?:PASSED|FAILED)(?: \((.*)\))?$", re.M)


@frozen
class TrialRun:
    """The outcome of one run of trial."""

    module: str
    #: The exit status; -9 for a run that was killed because it took too long.
    status: int
    seconds: float
    #: Trial's own closing line, such as ``PASSED (skips=1, successes=12)``.
    summary: str
    output: str
    #: Seconds of user and system time, of processes that it started too if it waited for their end; 0 if it was killed.
    processor_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True when there were tests, and each passed or was skipped with a reason."""
        return self.status == 0 and "=" in self.summary


def run_trial(module: str, patience: float, environment: Mapping[str, str] | None = None) -> TrialRun:
    """Run a test module, or a dotted name inside one, and wait for its end. Blocks.

    A run that takes longer than ``patience`` seconds is killed with all processes that it started, and has failed.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="logd-trial-", ignore_cleanup_errors=True) as folder:
        process = _start([f"--temp-directory={folder}/trial", module], {**os.environ, **(environment or {})})
        try:
            output, _ = process.communicate(timeout=patience)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            output += f"\nended after {patience:.0f} seconds: the run hung"
    times = _TIMES.search(output)
    taken = float(times[1]) if times else 0.0
    closing = list(_CLOSING.finditer(output))
    summary = closing[-1].group(0) if closing else "no closing line"
    return TrialRun(module, process.returncode, time.monotonic() - begin, summary, output, taken)


def _start(arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _TIMED, *arguments]
    options: dict[str, Any] = {
        "cwd": ROOT,
        "env": environment,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
        "start_new_session": True,  # so that processes of the tests can be killed with them
    }
    if forks():
        with suppress(OSError):  # the server was killed
            return ForkedProcess(_server(), command, serves=True, **options)
    return subprocess.Popen(command, **options)


@cache
def _server() -> ForkServer:
    return ForkServer.start(os.environ, _PRELOADED)
