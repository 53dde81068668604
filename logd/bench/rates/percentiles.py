"""Percentiles of measured times."""

from __future__ import annotations

from collections.abc import Sequence


def milliseconds(seconds: Sequence[float], share: float) -> float:
    """Return the time below which ``share`` (0 to 1) of the times lie, in milliseconds to the microsecond.

    Raises IndexError if there are none.
    """
    ordered = sorted(seconds)
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 3)
