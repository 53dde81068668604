"""The segments that leave a log, by age, by total size, or because their messages were deleted, and its start then.

Retention moves the start to that of a segment, a deletion of records also into one. The file of that segment stays
whole, and nobody may read it below the start. The start stands in the checkpoint, where recovery finds it. If the
checkpoint is lost, or was emptied on a full disk (see checkpoints_and_expiry), the log begins with its first segment
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logd.config import LogSettings
from logd.log.segments import SegmentList

if TYPE_CHECKING:
    from logd.log.partition import PartitionLog


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


def expire(log: PartitionLog) -> int:
    """Remove expired segments from a served log and return how many; upkeep removes their files later."""
    now = log.wall()
    if last_is_expired(log.segment_list, log.end, log.visible_end, now, log.settings):
        log.try_to_roll(now)
    count = count_expired(log.segment_list, log.visible_end, now, log.settings)
    log.remove_first(count)
    return count


def begin_at(log: PartitionLog, position: int) -> None:
    """Let a served log begin at ``position``, an entry boundary up to the visible end. Upkeep makes that durable.

    If nothing is left of the last segment, a new one takes its place, so that its file goes too.
    """
    if position == log.end > log.last_segment_start:
        log.try_to_roll(log.wall())
    log.remove_first(log.segment_list.find(position))
    log.start = max(log.start, position)
