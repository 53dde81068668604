"""Retention: the choice of the segments to remove, by age and by total size."""

from __future__ import annotations

from logd.config import LogSettings
from logd.log.segments import SegmentList


def count_expired(segments: SegmentList, visible_end: int, now: float, settings: LogSettings) -> int:
    """Return how many of the oldest segments have expired. The last one never has, nor one that is not fully visible.

    By time: segments last modified more than ``retention_ms`` ago. By size: the oldest, as long as at least
    ``retention_bytes`` remain, as in Kafka 0.7.2. A negative setting means no limit.
    """
    oldest = now - settings.retention_ms / 1000
    count = 0
    for index in range(len(segments.starts) - 1):
        end = segments.starts[index + 1]
        too_old = settings.retention_ms >= 0 and segments.segments[index].modified < oldest
        too_many = 0 <= settings.retention_bytes <= visible_end - end
        if end > visible_end or not (too_old or too_many):
            break
        count = index + 1
    return count


def last_is_expired(segments: SegmentList, end: int, visible_end: int, now: float, settings: LogSettings) -> bool:
    """Return whether the last segment has expired: not empty, fully visible, and too old. A new one is begun then."""
    last = segments.segments[-1]
    return (
        settings.retention_ms >= 0
        and end == visible_end > last.start
        and last.modified < now - settings.retention_ms / 1000
    )
