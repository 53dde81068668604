"""Processor time and memory of a process, as Linux counts them in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attrs import frozen

_TICKS = os.sysconf("SC_CLK_TCK")
#: The places of user and system time among the words behind the command's name in /proc/PID/stat (see proc(5)).
_USER_AT, _SYSTEM_AT = 11, 12
#: Written to /proc/PID/clear_refs, it begins a new peak of the resident set.
_RESET_PEAK = "5"


@frozen
class Usage:
    """Seconds of processor time, user and system, and the peak of the resident set in bytes."""

    processor_seconds: float
    peak_bytes: int


def processor_seconds(processes: Iterable[int]) -> float:
    """Return the seconds of processor time that the processes have used so far; a process that has gone counts 0."""
    total = 0
    for process in processes:
        with suppress(OSError):
            words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += int(words[_USER_AT]) + int(words[_SYSTEM_AT])
    return total / _TICKS


def processor_ns(process: int) -> int:
    """Return the nanoseconds of processor time of all threads that the process has now, where the system counts them.

    Finer than ``processor_seconds`` by far; threads that have ended are missing. A process that has gone counts 0.
    """
    total = 0
    for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with suppress(OSError):
            total += int(thread.read_text(encoding="ascii").split()[0])
    return total


def memory_bytes(process: int, name: str) -> int:
    """Return a figure of /proc/PID/status in bytes: ``VmRSS``, the resident set, or ``VmHWM``, its peak.

    Raises OSError if there is no such process, and ValueError if it has no such figure.
    """
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"there is no {name} in /proc/{process}/status")


class UsageMeter:
    """Measures what processes use between its making and ``read``; the peak of memory begins anew where allowed."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes = tuple(processes)
        for each in self._processes:
            with suppress(OSError):
                Path(f"/proc/{each}/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        self._before = processor_seconds(self._processes)

    def read(self) -> Usage:
        """Return what the processes together have used since."""
        peak = 0
        for each in self._processes:
            with suppress(OSError, ValueError):
                peak += memory_bytes(each, "VmHWM")
        return Usage(round(processor_seconds(self._processes) - self._before, 2), peak)
