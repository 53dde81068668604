"""The time of day, by which messages are stamped and counted."""

from __future__ import annotations

from time import time_ns


def time_of_day() -> int:
    """Return the time of day, in ms since the epoch. It can jump; a reactor's clock does not."""
    return time_ns() // 1_000_000
