"""A description of the machine on which a bench runs, for its result."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_GIGABYTE = 1 << 30


def describe_machine() -> dict[str, object]:
    """Return the processors that this process may use, their model, the memory, system, Python, and the load now.

    ``load_average`` is that of the last minute: what ran on the machine before the bench.
    """
    return {
        "processors": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIGABYTE),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
