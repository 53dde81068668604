"""The broker that uses a data directory now, found by its lock, and what the system allows that process."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from attrs import frozen

from logd.log.disk.names import META


@frozen
class ProcessLimits:
    """Limits of a process, None for no limit or an unknown one; ``open_files`` is what it has open now."""

    descriptors: int | None
    threads: int | None
    open_files: int | None = None


def lock_holder(data: str, proc: Path = Path("/proc")) -> int | None:
    """Return the process that holds the lock of the data directory; None if none does, or it cannot be seen."""
    try:
        stat = os.stat(os.path.join(data, META))
        lines = (proc / "locks").read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    others = []
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; a waiting one has "->" behind its number
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[4].isdigit():
            if words[5] == file:
                return int(words[4])
            others.append(int(words[4]))
    # Layered file systems show another device there than to stat(2).
    return next((each for each in others if _has_open(each, stat, proc)), None)


def _has_open(process: int, wanted: os.stat_result, proc: Path) -> bool:
    try:
        descriptors = list((proc / str(process) / "fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            found = descriptor.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def limits_of(process: int, proc: Path = Path("/proc")) -> ProcessLimits | None:
    """Return the limits of a process; None if they cannot be read."""
    try:
        lines = (proc / str(process) / "limits").read_text().splitlines()
    except OSError:
        return None
    found = {}
    for line in lines:
        for name in ("Max open files", "Max processes"):
            if line.startswith(name):
                soft = line[len(name) :].split()[0]
                found[name] = int(soft) if soft.isdigit() else None
    try:
        used = len(list((proc / str(process) / "fd").iterdir()))
    except OSError:
        used = None
    return ProcessLimits(found.get("Max open files"), found.get("Max processes"), used)


def own_limits() -> ProcessLimits:
    """Return the limits that a broker started from here would have; it raises the soft limit of files itself."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    threads, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return ProcessLimits(
        None if files == resource.RLIM_INFINITY else files, None if threads == resource.RLIM_INFINITY else threads
    )
