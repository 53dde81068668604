"""Limits of reading: an end of the log, a position or a time; for all partitions, or for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import field, frozen

from logd.clientcore.start_resolution import EARLIEST, ENDS, LATEST, position_at_time, position_of
from logd.protocol.requests.describe_log import DescribeLogResponse

#: The last time that a request can name.
_LAST_MS = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class At:
    """A limit in one partition: a position from 0, LATEST or EARLIEST; or a time in ms since the epoch."""

    position: int = LATEST
    time_ms: int | None = None


@frozen
class OffsetLimits:
    """The limit of each partition, where reading begins or ends: that of ``places``, or else ``rest``.

    ``places`` has a topic, then a partition, then its limit.
    """

    rest: At
    places: Mapping[str, Mapping[int, At]] = field(factory=dict)

    @classmethod
    def of(cls, name: str) -> OffsetLimits:
        """Return the limit ``earliest`` or ``latest`` for all partitions."""
        return cls(At(ENDS[name]))

    def has(self, end: int) -> bool:
        """Return True if LATEST or EARLIEST is the limit of all or of any partition."""
        named = [at for places in self.places.values() for at in places.values()] or [self.rest]
        return any(at.time_ms is None and at.position == end for at in named)

    def at(self, topic: str, partition: int) -> At:
        """Return the limit of one partition."""
        return self.places.get(topic, {}).get(partition, self.rest)


def resolve(at: At, log: DescribeLogResponse) -> int:
    """Return the position of a limit in a log, whose description was requested with the limit's time, if it has one.

    A time after all messages gives the visible end. A position is returned unchanged, also outside the log.
    """
    if at.time_ms is not None:
        return position_at_time(log)
    return position_of(at.position, log)


def parse_offsets(text: str, rest: str) -> OffsetLimits:
    """Read ``earliest``, ``latest``, JSON with positions, or a time as ISO text; raise ValueError.

    In JSON -2 is earliest and -1 latest; partitions that it leaves out have the limit ``rest``.
    """
    if text in ("earliest", "latest"):
        return OffsetLimits.of(text)
    allowed = (
        'earliest, latest, JSON such as {"topic": {"0": 4711, "1": -1}} (-2 is earliest, -1 latest), '
        "or a time such as 2011-11-11T00:00:00Z"
    )
    if text.startswith("{"):
        places = _parse_places(text, allowed)
        for partitions in places.values():
            if any(value < EARLIEST for value in partitions.values()):
                raise ValueError(allowed)
        return OffsetLimits(
            OffsetLimits.of(rest).rest,
            {
                topic: {number: At(value) for number, value in partitions.items()}
                for topic, partitions in places.items()
            },
        )
    try:
        return OffsetLimits(At(time_ms=parse_time(text)))
    except ValueError:
        raise ValueError(allowed) from None


def parse_timestamp(text: str) -> OffsetLimits:
    """Read one time for all partitions; raise ValueError."""
    return OffsetLimits(At(time_ms=parse_time(text)))


def parse_by_timestamp(text: str, rest: str) -> OffsetLimits:
    """Read JSON with a time in ms for each partition; raise ValueError."""
    allowed = 'JSON with times in ms since the epoch, such as {"topic": {"0": 1320969600000}}'
    places = _parse_places(text, allowed)
    if not all(0 <= value <= _LAST_MS for partitions in places.values() for value in partitions.values()):
        raise ValueError(allowed)
    return OffsetLimits(
        OffsetLimits.of(rest).rest,
        {
            topic: {number: At(time_ms=value) for number, value in partitions.items()}
            for topic, partitions in places.items()
        },
    )


def parse_time(text: str) -> int:
    """Read ms since the epoch, or ISO text (UTC where it names no zone); raise ValueError."""
    try:
        if text.isdigit():
            milliseconds = int(text)
        else:
            time = datetime.fromisoformat(text)
            milliseconds = ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        milliseconds = -1
    if not 0 <= milliseconds <= _LAST_MS:
        raise ValueError("ms since the epoch, or a time such as 2011-11-11T00:00:00Z (UTC unless it names a zone)")
    return milliseconds


def _parse_places(text: str, allowed: str) -> dict[str, dict[int, int]]:
    try:
        value: Any = json.loads(text)
        places = {topic: {int(number): each for number, each in value[topic].items()} for topic in value}
    except (ValueError, TypeError, AttributeError):
        raise ValueError(allowed) from None
    if not places or not all(places.values()):  # else all partitions would be read as if there were no option
        raise ValueError(allowed)
    if not all(type(each) is int for partitions in places.values() for each in partitions.values()):
        raise ValueError(allowed)
    return places
