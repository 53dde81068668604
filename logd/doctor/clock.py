"""The machine's time of day: whether it is kept in step, and whether it was set back while logs were written."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from logd.doctor.observation import Level, Observation
from logd.log.disk.names import folder_partition, segment_start

AREA = "clock"
#: adjtimex(2): the answer for a clock that nothing keeps in step, and the bytes of its structure, generously.
_TIME_ERROR, _TIMEX_BYTES = 5, 512
#: Seconds by which a file may lie in the future before the clock counts as set back.
TOLERATED = 5.0


def in_step() -> bool | None:
    """Return whether the kernel is told the right time by somebody (NTP, PTP, the host); None where it does not say."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _TIME_ERROR


def latest_write(data: str) -> tuple[str, float] | None:
    """Return the segment that was written last and its time; None without any. Raises OSError."""
    found: tuple[str, float] | None = None
    with os.scandir(data) as folders:
        for folder in folders:
            if folder_partition(folder.name) is None or not folder.is_dir(follow_symlinks=False):
                continue
            try:
                with os.scandir(folder.path) as files:
                    for file in files:
                        if segment_start(file.name) is not None:
                            time = file.stat().st_mtime
                            if found is None or time > found[1]:
                                found = file.path, time
            except OSError:
                continue
    return found


def examine_clock(kept: bool | None, last: tuple[str, float] | None, now: float) -> Iterator[Observation]:
    """Judge the clock by the kernel's word and by the time ``now`` against that of the newest segment."""
    if kept is False:
        yield Observation(
            AREA,
            Level.WARNING,
            "time of day",
            "nothing keeps it in step: times of messages, lag in seconds and ages for retention drift apart from those "
            "of other machines",
            "run chrony, systemd-timesyncd or ntpd; `chronyc tracking` and `timedatectl` show it",
        )
    elif kept:
        yield Observation(AREA, Level.OK, "time of day", "is kept in step")
    else:
        yield Observation(AREA, Level.NOTE, "time of day", "the system does not say whether it is kept in step")
    if last is not None and last[1] > now + TOLERATED:
        yield Observation(
            AREA,
            Level.WARNING,
            last[0],
            f"was written {last[1] - now:,.0f} seconds in the future: the clock was set back. Retention by age removes "
            "that much later",
            "set the clock right, or wait; `touch` the segments of stopped brokers if the time was wrong before",
        )
