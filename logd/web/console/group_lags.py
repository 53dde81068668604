"""The lags of all groups, and how long they will take to catch up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from attrs import define, field

from logd.client.admin.admin import Admin
from logd.client.admin.lag import LagReader, PartitionLag, partitions_of
from logd.client.consumer.consumer import Consumer
from logd.coord.errors import CoordinationError
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, list_groups, read_group, read_groups
from logd.coord.interfaces import ICoordination
from logd.deferreds.gathering import gather_some
from logd.errors import CoordinationUnavailable
from logd.web.console.rates import Rates
from logd.web.console.rows import GroupProblem, GroupRow
from logd.web.console.shared_readings import SharedReading

#: Groups whose lag is read; the others are listed without it.
MOST_GROUPS = 500
#: Partitions of one group that are described, and groups whose lags are read at a time.
MOST_PLACES = 2000
GROUPS_AT_ONCE = 10
#: Seconds for which the lags of all groups are shown again before they are read anew.
LAGS_KEPT = 5.0


@define(eq=False)
class GroupLags:
    """Reads lags from the partitions' leaders, and remembers positions for the rates."""

    _clock: Any
    #: Returns the tree. Raises CoordinationUnavailable.
    _tree: Callable[[], ICoordination]
    _admin: Callable[[], AbstractAsyncContextManager[Admin]]
    _consumer: Callable[[], Consumer]
    _ends: Rates = field(factory=Rates, init=False)
    _positions: Rates = field(factory=Rates, init=False)
    _lags: SharedReading[list[GroupRow]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._lags = SharedReading(self._clock, LAGS_KEPT, self._read_groups)

    async def all(self) -> list[GroupRow]:
        """Return all groups, what is worst first. Read anew every few seconds, however many ask."""
        return await self._lags.get()

    def stop(self) -> None:
        """Give up a reading under way."""
        self._lags.stop()

    async def _read_groups(self) -> list[GroupRow]:
        tree = self._tree()
        try:
            names = await list_groups(tree)
            entries = await read_groups(tree, names[:MOST_GROUPS])
        except CoordinationError as error:
            raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
        async with self._admin() as admin:
            reader = self._lag_reader(admin, 0)
            lags = await gather_some((self._lag_of(reader, entry) for entry in entries), GROUPS_AT_ONCE)
        now = self._clock.seconds()
        places = {_key(entry.name, lag): lag for entry, found in zip(entries, lags, strict=True) for lag in found}
        self._positions.sample(now, {key: lag.position for key, lag in places.items() if lag.position is not None})
        self._ends.sample(now, {key: lag.log_end for key, lag in places.items() if lag.log_end is not None})
        rows = [self._group_row(entry, found) for entry, found in zip(entries, lags, strict=True)]
        unread = GroupProblem("", f"only the lag of {MOST_GROUPS} groups is read")
        rows += [GroupRow(name, "", 0, (), 0, None, None, None, None, None, (unread,)) for name in names[MOST_GROUPS:]]
        return sorted(rows, key=lambda row: row.badness, reverse=True)

    async def one(self, name: str) -> tuple[GroupRow, list[PartitionLag], GroupEntry]:
        """Return one group with its partitions and their lags in messages too. Raises UnknownGroup."""
        try:
            entry = await read_group(self._tree(), name)
        except ValueError:
            raise UnknownGroup(f"there is no group {name[:300]!r}: no group can be called so") from None
        except CoordinationError as error:
            raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
        async with self._admin() as admin:
            lags = await self._lag_of(self._lag_reader(admin, 1 << 20), entry)
        return self._group_row(entry, lags), lags, entry

    async def _lag_of(self, reader: LagReader, entry: GroupEntry) -> list[PartitionLag]:
        places = await partitions_of(self._tree(), entry, None)
        return await reader.read(entry, places[:MOST_PLACES])

    def _lag_reader(self, admin: Admin, count_below: int) -> LagReader:
        return LagReader(admin, self._consumer, self._clock, time.time, count_below)

    def _group_row(self, entry: GroupEntry, lags: list[PartitionLag]) -> GroupRow:
        keys = [_key(entry.name, lag) for lag in lags]
        handled = _sum(self._positions.get(key) for key in keys)
        grown = _sum(self._ends.get(key) for key in keys)
        lag_bytes = _sum(lag.lag_bytes for lag in lags)
        clear: float | None = None
        if lag_bytes == 0:
            clear = 0.0
        elif lag_bytes is not None and handled is not None and grown is not None and handled > grown:
            clear = lag_bytes / (handled - grown)
        known = [lag.lag_seconds for lag in lags if lag.lag_seconds is not None]
        problems = [GroupProblem(lag.topic, f"{lag.topic}-{lag.partition}: {lag.error}") for lag in lags if lag.error]
        problems += [
            GroupProblem(lag.topic, f"{lag.topic}-{lag.partition}: messages were lost before they were handled")
            for lag in lags
            if lag.lost
        ]
        if len(lags) == MOST_PLACES:
            problems.append(GroupProblem("", f"only the first {MOST_PLACES} partitions are read"))
        kafka = entry.coordinator is not None
        messages = _sum(lag.lag_messages for lag in lags)
        return GroupRow(
            entry.name,
            f"Kafka, at broker {entry.coordinator}" if kafka else "native",
            len(entry.consumers),
            tuple(sorted({lag.topic for lag in lags})) or entry.topics,
            len(lags),
            None if lag_bytes is None else int(lag_bytes),
            None if messages is None else int(messages),
            max(known, default=None) if lags else 0.0,
            handled,
            clear,
            tuple(problems),
        )


def _key(group: str, lag: PartitionLag) -> str:
    return f"{group}\0{lag.topic}\0{lag.partition}"


def _sum(values: Iterator[float | int | None]) -> float | None:
    known = list(values)
    return None if any(value is None for value in known) else sum(value for value in known if value is not None)
