"""Starts of reading: an end of the log, a position, or a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import index
from typing import Any, Literal

from attrs import frozen

from logd.clientcore.start_resolution import ENDS, position_at_time, position_of
from logd.errors import ConfigurationError
from logd.protocol.requests.describe_log import DescribeLogResponse


@frozen
class Position:
    """A start at a position (a byte offset). Inside an entry or a compressed wrapper it means that message."""

    value: int


@frozen
class Time:
    """A start at the first message at or after a time: ms since the epoch, or a datetime (naive: local time).

    The time is that of the append, or of the message if it carries one, as exact as the broker's index: some earlier
    messages may come too.
    """

    value: int | datetime

    @property
    def milliseconds(self) -> int:
        """Return the time in ms since the epoch."""
        if isinstance(self.value, datetime):
            return int(self.value.astimezone(UTC).timestamp() * 1000)
        return self.value


Start = Literal["earliest", "latest"] | Position | Time | int
#: One start for all partitions, or one for each.
Starts = Start | Mapping[int, Start]


def check_start(start: object) -> Literal["earliest", "latest"] | Position | Time:
    """Return the start in the form used; a plain number is a position. Raises ConfigurationError for anything else."""
    if start == "earliest" or start == "latest":
        return start
    if isinstance(start, int) and not isinstance(start, bool):
        start = Position(start)
    if isinstance(start, Position) and _is_natural(start.value):
        return start
    if isinstance(start, Time) and _is_natural(start.milliseconds):
        return start
    raise _not_allowed("start", start)


def check_starts(starts: Starts) -> None:
    """Check the start of every partition. Raises ConfigurationError."""
    if not isinstance(starts, Mapping):
        check_start(starts)
        return
    for partition, start in starts.items():
        if isinstance(partition, bool) or not _is_natural(partition):
            raise ConfigurationError(
                f"start = {starts!r} is not allowed: {partition!r} is no number of a partition (JSON makes numbers "
                "texts: int() makes numbers of them again)"
            )
        try:
            check_start(start)
        except ConfigurationError:
            raise _not_allowed(f"start of partition {partition}", start) from None


def check_position(position: object) -> None:
    """Raise ConfigurationError for what is no position, such as a start that ``seek`` does not know."""
    if isinstance(position, bool) or not _is_natural(position):
        raise ConfigurationError(f"position {position!r} is not allowed; allowed is a whole number from 0")


def _is_natural(value: Any) -> bool:
    try:
        return index(value) >= 0  # also integers of numpy
    except TypeError:
        return False


def _not_allowed(what: str, start: object) -> ConfigurationError:
    error = f"{what} = {start!r} is not allowed; allowed is 'earliest', 'latest', a position from 0, Position or Time"
    if start == -1:
        error += " (positions() has -1 where the position is not known yet: leave such partitions out)"
    return ConfigurationError(error)


def start_for(starts: Starts, partition: int) -> Literal["earliest", "latest"] | Position | Time:
    """Return the start of one partition; partitions that a mapping leaves out begin at the earliest message."""
    if isinstance(starts, Mapping):
        return check_start(starts.get(partition, "earliest"))
    return check_start(starts)


def time_of(start: str | Position | Time) -> int:
    """Return the time, in ms since the epoch, to describe a log with for ``resolve``; -1 for a start without a time."""
    return start.milliseconds if isinstance(start, Time) else -1


def resolve(start: str | Position | Time, log: DescribeLogResponse) -> int:
    """Return the position of a start in a log that was described with ``time_of(start)``."""
    if isinstance(start, Time):
        return position_at_time(log)
    return position_of(start.value if isinstance(start, Position) else ENDS[start], log)
