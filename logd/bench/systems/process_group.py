"""Processes in groups of their own, so that Ctrl-C reaches only the bench, which ends each with all it has started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from logd.errors import LogdError


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start ``command`` as the leader of a new group; ``options`` are those of subprocess.Popen."""
    return subprocess.Popen(command, start_new_session=True, **options)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, its group, and all processes that these have started, and wait for its end."""
    below = children(process.pid) if process.poll() is None else []
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for each in below:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def call(command: Sequence[str], folder: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in ``folder`` to its end and return its output, errors included. Raises LogdError if it fails."""
    try:
        process = start(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise LogdError(f"there is no {command[0]} on the PATH") from None
    try:
        output = process.communicate()[0].decode("utf-8", "replace")
    except BaseException:  # Ctrl-C
        kill(process)
        raise
    if process.returncode:
        raise LogdError(f"{command[0]} failed: {output[-1000:]}")
    return output


def children(process: int) -> list[int]:
    """Return the ids of the processes that a process has started, and those that these have started."""
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            found = [int(each) for each in file.read().split()]
    except OSError:
        return []
    return [each for child in found for each in (child, *children(child))]
