"""The system's limits against what a broker's settings need: open files, threads, memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from logd.config import BrokerSettings
from logd.doctor.observation import Level, Observation
from logd.doctor.processes import ProcessLimits

AREA = "limits"
#: Descriptors for all but connections and segments, and the least for segments; the broker shares them out likewise.
RESERVED, LEAST_FOR_SEGMENTS = 128, 128
#: Threads and processes of the user, of which a broker needs some 20.
LEAST_THREADS = 128
#: Bytes of memory for the broker itself, beside what its settings let wait for the disk.
OWN_MEMORY = 128 << 20


def examine_limits(
    limits: ProcessLimits, subject: str, settings: BrokerSettings | None, partitions: int
) -> Iterator[Observation]:
    """Compare limits with the settings; ``partitions`` is the number that is stored here."""
    connections = 1000 if settings is None else settings.connections_max
    needed = connections + RESERVED + max(LEAST_FOR_SEGMENTS, partitions + partitions // 4)
    files = limits.descriptors
    if files is not None and files < needed:
        level = Level.PROBLEM if files < connections + RESERVED + LEAST_FOR_SEGMENTS else Level.WARNING
        yield Observation(
            AREA,
            level,
            subject,
            f"may open {files:,} files; connections.max = {connections:,} and {partitions:,} logs need {needed:,}",
            f"LimitNOFILE={needed} in the unit, or `ulimit -Hn {needed}` before the start; or lower connections.max",
        )
    else:
        yield Observation(AREA, Level.OK, subject, f"may open {_amount(files)} files, of which {needed:,} are needed")
    if files is not None and limits.open_files is not None and limits.open_files > files * 0.9:
        yield Observation(
            AREA,
            Level.WARNING,
            subject,
            f"has {limits.open_files:,} of {files:,} files open",
            "look for clients that leave connections behind (`logd_connections`), or raise LimitNOFILE=",
        )
    if limits.threads is not None and limits.threads < LEAST_THREADS:
        yield Observation(
            AREA,
            Level.WARNING,
            subject,
            f"its user may have {limits.threads:,} threads and processes",
            f"TasksMax= in the unit, or `ulimit -u`: {LEAST_THREADS} or more",
        )


def examine_memory(settings: BrokerSettings, meminfo: str) -> Iterator[Observation]:
    """Compare the memory that is available with what the settings let a broker take. ``meminfo``: /proc/meminfo."""
    kilobytes = {line.partition(":")[0]: line.split()[1] for line in meminfo.splitlines() if len(line.split()) > 1}
    free = int(kilobytes.get("MemAvailable", "0")) * 1024
    if not free:
        return
    needed = settings.unflushed_bytes + settings.frames_bytes + OWN_MEMORY
    if free < needed:
        yield Observation(
            AREA,
            Level.WARNING,
            "memory",
            f"{free >> 20:,} MiB are available; requests and messages that wait may take {needed >> 20:,} MiB",
            "give the machine more memory, or lower unflushed.bytes and frames.bytes",
        )
    else:
        yield Observation(
            AREA, Level.OK, "memory", f"{free >> 20:,} MiB are available; a broker may take {needed >> 20:,}"
        )


def read_meminfo(proc: Path = Path("/proc")) -> str:
    """Return /proc/meminfo; empty where there is none."""
    try:
        return (proc / "meminfo").read_text()
    except OSError:
        return ""


def _amount(number: int | None) -> str:
    return "any number of" if number is None else f"{number:,}"
