"""The sum of monitoring events, for each topic, window and tier. Late, repeated and disordered events are allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from attrs import define, field

from logd.audit.event import AuditEvent, Reporter, Tier
from logd.audit.spans import widen
from logd.audit.windows import window_of
from logd.errors import LogdError

#: The most counts held, each of a topic, window, tier and origin, or of a reporter: up to 1 KB each.
MOST_COUNTS = 1_000_000


class TooManyCounts(LogdError):
    """The events have more windows, topics and servers than are compared at a time."""


class Stage(NamedTuple):
    """The place of a count: one tier of one cluster, for one topic, and a group where the tier is consumed."""

    topic: str
    cluster: str
    tier: Tier
    group: str
    #: Of a mirror: the cluster from which it copies, and the topic's name in ``cluster``.
    source: str = ""
    copy: str = ""


@define
class OriginCount:
    """The messages of one origin in one window, as all reporters of a stage counted them."""

    count: int = 0
    #: None if some were not opened.
    bytes: int | None = 0
    unsettled: int = 0


@define
class WindowCount:
    """All that the reporters of one stage said about one window."""

    origins: dict[str, OriginCount] = field(factory=dict)
    #: The first and the last position of each partition.
    first: dict[int, int] = field(factory=dict)
    last: dict[int, int] = field(factory=dict)
    #: The same of a mirror's copies in the target's partitions.
    copied_first: dict[int, int] = field(factory=dict)
    copied_last: dict[int, int] = field(factory=dict)
    #: By reporter and its own window, which may be a part of this one: the sequence and origin of its last event with
    #: ``open``, and the sequence of its last other event.
    _opened: dict[tuple[Reporter, int], tuple[int, str]] = field(factory=dict)
    _closed: dict[tuple[Reporter, int], int] = field(factory=dict)

    @property
    def count(self) -> int:
        """Return the messages of all origins."""
        return sum(each.count for each in self.origins.values())

    @property
    def open_origins(self) -> set[str]:
        """Return the servers and origins of the reporters that have begun to count and not said how many."""
        found: set[str] = set()
        for who, (sequence, origin) in self._opened.items():
            if sequence > self._closed.get(who, -1):
                found |= {origin, who[0].server}
        return found

    def add(self, event: AuditEvent) -> int:
        """Add an event; return how many more things are held for it."""
        who, sequence = (event.reporter, event.window), event.sequence
        new = int(who not in self._opened) + int(event.origin not in self.origins)
        if event.open:
            self._opened[who] = max(self._opened.get(who, (-1, "")), (sequence, event.origin))
        else:
            self._closed[who] = max(self._closed.get(who, -1), sequence)
        if not event.count and not event.unsettled:
            return new
        count = self.origins.setdefault(event.origin, OriginCount())
        count.count += event.count
        count.unsettled += event.unsettled
        count.bytes = None if count.bytes is None or event.bytes is None else count.bytes + event.bytes
        widen(self.first, self.last, event.first, event.last)
        widen(self.copied_first, self.copied_last, event.copied_first, event.copied_last)
        return new


@define
class Extent:
    """The first and the last position that one reporter has read, by partition: all between them it has read."""

    first: dict[int, int] = field(factory=dict)
    last: dict[int, int] = field(factory=dict)


@define
class _Sequences:
    """The sequences of one reporter that have been seen: all from ``first`` up to ``next``, and those in ``ahead``."""

    first: int
    next: int
    ahead: set[int] = field(factory=set)
    behind: set[int] = field(factory=set)

    def add(self, sequence: int) -> bool:
        """Return whether the sequence is a new one."""
        if sequence in self.ahead or sequence in self.behind or self.first <= sequence < self.next:
            return False
        (self.behind if sequence < self.first else self.ahead).add(sequence)
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += 1
        while self.first - 1 in self.behind:
            self.first -= 1
            self.behind.remove(self.first)
        return True

    @property
    def missing(self) -> int:
        """Return the number of sequences between the lowest and the highest seen that were not seen."""
        low = min(self.behind, default=self.first)
        high = max(self.ahead, default=self.next - 1)
        return high + 1 - low - len(self.ahead) - len(self.behind) - (self.next - self.first)


@define(eq=False)
class Reconciliation:
    """The sums of all events of one width, or of widths that divide it.

    ``topics`` limits the topics that are kept; none keeps all.
    """

    width: int
    topics: frozenset[str] = frozenset()
    #: By stage, the counts of each window.
    stages: dict[Stage, dict[int, WindowCount]] = field(factory=dict, init=False)
    #: By stage, the positions that each of its reporters has read.
    extents: dict[Stage, dict[Reporter, Extent]] = field(factory=dict, init=False)
    #: The first window of each stage.
    earliest: dict[Stage, int] = field(factory=dict, init=False)
    #: The reporters of which events are missing, if that is known otherwise than by the events that were added.
    incomplete: Collection[Reporter] | None = field(default=None, init=False)
    #: Events that came again, and that have a width which does not divide this one.
    repeated: int = field(default=0, init=False)
    unfit: int = field(default=0, init=False)
    _sequences: dict[Reporter, _Sequences] = field(factory=dict, init=False)
    _counts: int = field(default=0, init=False)

    def add(self, event: AuditEvent) -> None:
        """Add one event. Raises TooManyCounts."""
        seen = self._sequences.get(event.reporter)
        if seen is None:
            self._sequences[event.reporter] = _Sequences(event.sequence, event.sequence + 1)
            self._counts += 1
        elif not seen.add(event.sequence):
            self.repeated += 1
            return
        if self.topics and event.topic not in self.topics:
            return
        if self.width % event.width:
            self.unfit += 1
            return
        stage = Stage(event.topic, event.cluster, event.tier, event.group, event.source, event.copy)
        windows = self.stages.setdefault(stage, {})
        start = window_of(event.window, self.width)
        self.earliest[stage] = min(start, self.earliest.get(stage, start))
        window = windows.get(start)
        if window is None:
            window = windows[start] = WindowCount()
            self._counts += 1
        self._counts += window.add(event)
        if event.last and event.tier is not Tier.PRODUCED:
            extents = self.extents.setdefault(stage, {})
            if event.reporter not in extents:
                extents[event.reporter] = Extent()
                self._counts += 1
            extent = extents[event.reporter]
            widen(extent.first, extent.last, event.first, event.last)
        if self._counts > MOST_COUNTS:
            raise TooManyCounts(
                f"the events count more than {MOST_COUNTS} windows, servers and reporters: choose topics, a shorter "
                "time or wider windows"
            )

    def add_all(self, events: Iterable[AuditEvent]) -> None:
        """Add several events. Raises TooManyCounts."""
        for event in events:
            self.add(event)

    @property
    def lost_events(self) -> Mapping[Reporter, int]:
        """Return the number of events that are missing between others, for each reporter that lacks any."""
        return {reporter: seen.missing for reporter, seen in self._sequences.items() if seen.missing}
