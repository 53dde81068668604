"""Which segments are old enough, or one too many, to be removed."""

from __future__ import annotations

from logd.config import LogSettings
from logd.log.segments import SegmentList


def count_expired(segments: SegmentList, visible_end: int, now: float, settings: LogSettings) -> int:
    """Return how many of the first segments may go; never the last one, and none that is not visible as a whole.

    By time: those last changed more than ``retention_ms`` ago. By size: the oldest, while what would be left is still
    at least ``retention_bytes``, as Kafka 0.7.2 does it. Negative means without limit.
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
    """Whether the last segment holds something, all visible and too old: then a new one is begun, so that it can go."""
    last = segments.segments[-1]
    return (
        settings.retention_ms >= 0
        and end == visible_end > last.start
        and last.modified < now - settings.retention_ms / 1000
    )
