"""Offsets by time, as Kafka 0.7.2 answers the Offsets request: segment starts and the log's end."""

from __future__ import annotations

from collections.abc import Sequence

LATEST = -1
EARLIEST = -2


def offsets_before(
    segments: Sequence[tuple[int, float]], visible_end: int, now_ms: float, time_ms: int, max_count: int
) -> list[int]:
    """Return up to ``max_count`` offsets, in descending order, whose time is not after ``time_ms``.

    ``segments`` are (start, modification time in ms), ascending and never empty. The visible end counts with the
    current time, unless the last segment is empty. A time of -1 (latest) begins with the newest offset, -2 (earliest)
    returns the oldest. The algorithm is Log.getOffsetsBefore of Kafka 0.7.2.
    """
    times = [(start, modified) for start, modified in segments if start <= visible_end]
    if times and visible_end > times[-1][0]:
        times.append((visible_end, now_ms))
    if time_ms == LATEST:
        last = len(times) - 1
    elif time_ms == EARLIEST:
        last = 0
    else:
        last = next((at for at in reversed(range(len(times))) if times[at][1] <= time_ms), -1)
    return [start for start, _ in reversed(times[: last + 1])][: max(0, max_count)]
