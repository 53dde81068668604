"""The time and the processor time of a client and a broker."""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import frozen


@frozen
class Cost:
    """Seconds of the wall clock, and processor seconds of the client's process and of the broker's."""

    seconds: float
    client_seconds: float
    broker_seconds: float


class CostMeter:
    """Time since it was made: of the wall clock, of this process's processor and of another's."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._begin = time.perf_counter(), time.process_time(), _processor_seconds(process)

    def stop(self) -> Cost:
        """Return what has passed."""
        now = time.perf_counter(), time.process_time(), _processor_seconds(self._process)
        wall, own, other = (round(end - begin, 3) for begin, end in zip(self._begin, now, strict=True))
        return Cost(wall, own, other)


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process, all its threads, user and system, as Linux counts it."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
