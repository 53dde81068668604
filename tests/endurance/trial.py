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
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent.parent
#: Runs a command, and says in a last line what it and the processes that it waited for took of the processors.
_TIMED = ("bash", "-c", 'TIMEFORMAT="processor seconds: %U %S"; time "$@"', "bash")
_TIMES = re.compile(r"^processor seconds: (\S+) (\S+)\n\Z", re.M)
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
        command = [*_TIMED, sys.executable, "-m", "twisted.trial", f"--temp-directory={folder}/trial", module]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that processes of the tests can be killed with them
        )
        try:
            output, _ = process.communicate(timeout=patience)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            output += f"\nended after {patience:.0f} seconds: the run hung"
    times = _TIMES.search(output)
    # Bash writes the decimal point of the user's language.
    taken = sum(float(each.replace(",", ".")) for each in times.groups()) if times else 0.0
    closing = list(_CLOSING.finditer(output))
    summary = closing[-1].group(0) if closing else "no closing line"
    return TrialRun(module, process.returncode, time.monotonic() - begin, summary, output, taken)
