"""The way of messages between clusters: which producers' messages a stage has to see, and where they are in its log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from logd.audit.event import Reporter, Tier
from logd.audit.reconciliation import Extent, Stage, WindowCount
from logd.audit.spans import widen

Windows = Mapping[int, WindowCount]


class ClusterTopic(NamedTuple):
    """A topic of one cluster: the log to which producers and mirrors write, and from which stages read."""

    cluster: str
    topic: str


class Passage:
    """All counts, by the topics of clusters among which mirrors copy."""

    def __init__(self, stages: Mapping[Stage, Windows], incomplete: Collection[Reporter] = ()) -> None:
        """``incomplete``: the reporters of which events are missing."""
        self.incomplete = incomplete
        self._produced: dict[ClusterTopic, Windows] = {}
        self._mirrored: dict[ClusterTopic, list[tuple[ClusterTopic, Windows]]] = {}
        for stage, windows in stages.items():
            if stage.tier is Tier.PRODUCED:
                self._produced[ClusterTopic(stage.cluster, stage.topic)] = windows
        for stage, windows in stages.items():
            if stage.tier is Tier.MIRRORED:
                target = ClusterTopic(stage.cluster, stage.copy or stage.topic)
                into = self._mirrored.setdefault(target, [])
                into += [(source, windows) for source in self._sources_of(stage)]

    def log_of(self, stage: Stage) -> ClusterTopic | None:
        """Return the log that a stage reads, or to which it produces; None if a mirror does not say which."""
        if stage.tier is not Tier.MIRRORED:
            return ClusterTopic(stage.cluster, stage.topic)
        sources = self._sources_of(stage)
        return sources[0] if len(sources) == 1 else None

    def produced_for(self, stage: Stage) -> list[Windows]:
        """Return the counts of the producers whose messages have to be in a stage, by mirrors on the way too."""
        if stage.tier is Tier.MIRRORED:
            logs = self._reaching(self._sources_of(stage))
        else:
            logs = self._reaching([ClusterTopic(stage.cluster, stage.topic)])
        return [self._produced[log] for log in logs if log in self._produced]

    def positions(self, log: ClusterTopic, start: int) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return the first and the last positions of a window in a log, by partition.

        They are empty unless every producer and mirror that wrote of the window has said where.
        """
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        produced = self._produced.get(log, {}).get(start)
        if produced is not None and produced.count:
            if not produced.last:
                return {}, {}
            widen(first, last, produced.first, produced.last)
        for _, windows in self._mirrored.get(log, ()):
            mirrored = windows.get(start)
            if mirrored is not None and mirrored.count:
                if not mirrored.copied_last:
                    return {}, {}
                widen(first, last, mirrored.copied_first, mirrored.copied_last)
        return first, last

    def _sources_of(self, stage: Stage) -> Sequence[ClusterTopic]:
        if stage.source:
            return [ClusterTopic(stage.source, stage.topic)]
        return sorted(log for log in self._produced if log.topic == stage.topic and log.cluster != stage.cluster)

    def _reaching(self, logs: Iterable[ClusterTopic]) -> Iterator[ClusterTopic]:
        """Yield these logs, and those from which mirrors copied into them."""
        found = dict.fromkeys(logs)
        ahead = list(found)
        while ahead:
            log = ahead.pop()
            yield log
            for source, _ in self._mirrored.get(log, ()):
                if source not in found:
                    found[source] = None
                    ahead.append(source)


def covered(extents: Iterable[Extent]) -> dict[int, list[tuple[int, int]]]:
    """Return the spans of positions, by partition, that reporters have read: each all between its first and last.

    Positions between two reporters that neither has read may have been read without an audit.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    for extent in extents:
        for partition, at in extent.first.items():
            spans.setdefault(partition, []).append((at, extent.last[partition]))
    return {partition: list(_joined(sorted(each))) for partition, each in spans.items()}


def _joined(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, end = spans[0]
    for first, last in spans[1:]:
        if first <= end + 1:
            end = max(end, last)
        else:
            yield begin, end
            begin, end = first, last
    yield begin, end
