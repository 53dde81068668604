"""The verdict on each window: what each tier lacks, has twice, or cannot account for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from attrs import field, frozen

from logd.audit.event import ALL_ORIGINS, Tier
from logd.audit.passage import Passage, covered
from logd.audit.reconciliation import OriginCount, Reconciliation, Stage, WindowCount

#: Ms after a window's end before it is judged: events are published at the end, and consumers are behind producers.
DEFAULT_GRACE = 120_000


class OriginDifference(NamedTuple):
    """Messages of one origin that a tier lacks or has in excess."""

    origin: str
    missing: int = 0
    duplicated: int = 0
    unaccounted: int = 0
    #: True if the counts agree and the bytes do not: one message is missing, and another one is there twice.
    bytes_differ: bool = False


@frozen(kw_only=True)
class Verdict:
    """The verdict on one tier's count of a topic's messages in one window.

    ``missing`` messages were acknowledged to their producers and are not in this tier. ``duplicated`` ones are there
    more than once. ``unaccounted`` ones are neither: no producer has counted them (or not yet), or the tier has not
    read so far, or a reporter died before its last event.
    """

    topic: str
    #: Start of the window, and its width, in ms.
    window: int
    width: int
    cluster: str
    tier: Tier
    group: str
    #: Of a mirror: the cluster from which it copies to ``cluster``.
    source: str = ""
    expected: int
    seen: int
    missing: int = 0
    duplicated: int = 0
    unaccounted: int = 0
    #: True before the end of the grace time: what differs is then unaccounted.
    pending: bool = False
    differences: tuple[OriginDifference, ...] = ()
    #: The positions among which the missing messages are: the window's first and last, for each partition.
    first: Mapping[int, int] = field(factory=dict)
    last: Mapping[int, int] = field(factory=dict)

    @property
    def failed(self) -> bool:
        """Return whether messages are missing for certain."""
        return self.missing > 0 or any(each.bytes_differ for each in self.differences)

    @property
    def stage(self) -> str:
        """Return the tier in words, with the group of consumers."""
        return f"{self.tier} by {self.group}" if self.group else str(self.tier)


def judge(
    sums: Reconciliation, now: int, *, grace: int = DEFAULT_GRACE, begin: int = 0, end: int | None = None
) -> Iterator[Verdict]:
    """Yield the verdicts, ordered by topic, window and tier, for windows from ``begin`` to before ``end`` (ms).

    A window is judged once ``grace`` ms have passed after its end.
    """
    passage = Passage(sums.stages, sums.lost_events.keys() if sums.incomplete is None else sums.incomplete)
    topics: dict[str, list[Stage]] = {}
    for stage in sums.stages:
        topics.setdefault(stage.topic, []).append(stage)
    order = list(Tier)
    for _, stages in sorted(topics.items()):
        stages.sort(key=lambda stage: (order.index(stage.tier), *stage))
        readers = [_StageReader(stage, sums, passage) for stage in stages]
        windows = {start for stage in stages for start in sums.stages[stage]}
        for start in sorted(windows):
            if start >= begin and (end is None or start < end):
                pending = now < start + sums.width + grace
                for reader in readers:
                    verdict = reader.judge(start, sums.width, pending)
                    if verdict is not None:
                        yield verdict


class _StageReader:
    """One stage beside what was produced for it."""

    def __init__(self, stage: Stage, sums: Reconciliation, passage: Passage) -> None:
        self._stage = stage
        self._windows = sums.stages[stage]
        self._passage = passage
        self._log = passage.log_of(stage)
        self._produced = passage.produced_for(stage)
        extents = sums.extents.get(stage, {})
        # A reporter of which events are missing has read what no event counts.
        self._covered = covered(extent for reporter, extent in extents.items() if reporter not in passage.incomplete)
        self._earliest = sums.earliest[stage]

    def judge(self, start: int, width: int, pending: bool) -> Verdict | None:
        """Return the verdict on the window at ``start``; None if this stage has nothing to do with it."""
        stage = self._stage
        seen = self._windows.get(start)
        base = {
            "topic": stage.topic, "window": start, "width": width, "cluster": stage.cluster, "tier": stage.tier,
            "group": stage.group, "source": stage.source, "pending": pending,
        }  # fmt: skip
        if stage.tier is Tier.PRODUCED:
            if seen is None:
                return None
            open_now = sum(each.unsettled for each in seen.origins.values())
            return Verdict(expected=seen.count, seen=seen.count, unaccounted=open_now, **base)  # type: ignore[arg-type]
        produced = [windows[start] for windows in self._produced if start in windows]
        if seen is None:
            if self._is_before(start):
                return None
            seen = WindowCount()
        expected = _sum_origins(produced)
        certain = not pending and not seen.open_origins and self._has_passed(start)
        open_origins = set().union(*(each.open_origins for each in produced))
        differences = []
        for origin, want, have in _pairs(expected, seen.origins):
            difference = _compare(origin, want, have, certain, pending, open_origins)
            if difference is not None:
                differences.append(difference)
        missing = sum(each.missing for each in differences)
        first, last = self._positions(start) if missing else ({}, {})
        return Verdict(
            expected=sum(each.count for each in expected.values()),
            seen=seen.count,
            missing=missing,
            duplicated=sum(each.duplicated for each in differences),
            unaccounted=sum(each.unaccounted for each in differences),
            differences=tuple(differences),
            first=first,
            last=last,
            **base,  # type: ignore[arg-type]
        )

    def _positions(self, start: int) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return the window's positions in the log that the stage read; empty if they are not known."""
        if self._log is None or not self._covered:
            return {}, {}
        return self._passage.positions(self._log, start)

    def _is_before(self, start: int) -> bool:
        """Return whether the stage began to read behind this window, of which it has no message."""
        _, last = self._positions(start)
        if last.keys() & self._covered.keys():
            begins = {partition: spans[0][0] for partition, spans in self._covered.items()}
            return all(at < begins[partition] for partition, at in last.items() if partition in begins)
        return start < self._earliest

    def _has_passed(self, start: int) -> bool:
        """Return whether the stage has read all of the window's positions: what it lacks of them, it will not see."""
        first, last = self._positions(start)
        if not last:
            return False
        return all(
            any(begin <= first[partition] and at <= end for begin, end in self._covered.get(partition, ()))
            for partition, at in last.items()
        )


def _sum_origins(windows: list[WindowCount]) -> dict[str, OriginCount]:
    found: dict[str, OriginCount] = {}
    for window in windows:
        for origin, each in window.origins.items():
            total = found.setdefault(origin, OriginCount())
            _add(total, each)
    return found


def _add(total: OriginCount, each: OriginCount) -> None:
    total.count += each.count
    total.unsettled += each.unsettled
    total.bytes = None if total.bytes is None or each.bytes is None else total.bytes + each.bytes


def _pairs(
    expected: Mapping[str, OriginCount], seen: Mapping[str, OriginCount]
) -> Iterator[tuple[str, OriginCount, OriginCount]]:
    """Yield the counts to be compared with each other: those of each origin, as far as both sides know the origins."""
    nothing = OriginCount()
    if ALL_ORIGINS in seen:
        yield ALL_ORIGINS, _total(expected), _total(seen)
    elif ALL_ORIGINS not in expected:
        for origin in sorted(expected.keys() | seen.keys()):
            yield origin, expected.get(origin, nothing), seen.get(origin, nothing)
    else:
        # Of a producer that names itself, no fewer messages may be there; those of the others are in the rest.
        rest = OriginCount(bytes=None)
        for origin in sorted((expected.keys() | seen.keys()) - {ALL_ORIGINS}):
            want, have = expected.get(origin, nothing), seen.get(origin, nothing)
            yield origin, want, have if have.count < want.count else want
            rest.count += max(0, have.count - want.count)
        yield ALL_ORIGINS, expected[ALL_ORIGINS], rest


def _total(origins: Mapping[str, OriginCount]) -> OriginCount:
    total = OriginCount()
    for each in origins.values():
        _add(total, each)
    return total


def _compare(
    origin: str, expected: OriginCount, seen: OriginCount, certain: bool, pending: bool, open_origins: set[str]
) -> OriginDifference | None:
    """Return how the counts differ, None if they do not."""
    lacks = expected.count - seen.count
    if lacks > 0:
        return OriginDifference(origin, missing=lacks) if certain else OriginDifference(origin, unaccounted=lacks)
    if lacks < 0:
        excess = -lacks
        is_open = bool(open_origins) if origin == ALL_ORIGINS else origin in open_origins
        unknown = excess if pending or is_open or not expected.count else min(excess, expected.unsettled)
        return OriginDifference(origin, duplicated=excess - unknown, unaccounted=unknown)
    if not certain or origin in open_origins or expected.unsettled or None in (expected.bytes, seen.bytes):
        return None
    return OriginDifference(origin, bytes_differ=True) if expected.bytes != seen.bytes else None
