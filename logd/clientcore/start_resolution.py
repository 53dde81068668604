"""The position that a start means in a log: an end of it, a position, or a time."""

from __future__ import annotations

from logd.protocol.requests.describe_log import DescribeLogResponse

#: The numbers that stand for the ends of a log as positions in Kafka's requests and Spark's options.
LATEST = -1
EARLIEST = -2
#: The ends of a log, by the words that applications use.
ENDS = {"earliest": EARLIEST, "latest": LATEST}


def position_of(position: int, log: DescribeLogResponse) -> int:
    """Return the position in a log. LATEST and EARLIEST become its ends; others are returned as they are."""
    return {EARLIEST: log.log_start, LATEST: log.visible_end}.get(position, position)


def position_at_time(log: DescribeLogResponse) -> int:
    """Return the position of the first message at or after the time that the log was described with.

    A time after all messages is the visible end.
    """
    return log.visible_end if log.time_position < 0 else min(log.time_position, log.visible_end)
