"""The verdicts of the audit on tables of monitoring events, by Spark.

The events of one day, and of topics that mirrors copy to one another, are judged together by one task, with what is
known of all days: how far each reporter has read, and of which reporters events are missing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from logd.audit.event import AuditEvent, Reporter, Tier, decode_event
from logd.audit.reconciliation import Extent, Reconciliation, Stage
from logd.audit.spans import widen
from logd.audit.verdict_fields import as_fields
from logd.audit.verdicts import DEFAULT_GRACE, judge
from logd.audit.windows import DEFAULT_WIDTH, window_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Ms of windows that one task judges.
_DAY = 24 * 60 * 60 * 1000
_SCHEMA = (
    "topic string, window bigint, width bigint, cluster string, tier string, `group` string, source string, "
    "expected bigint, seen bigint, missing bigint, duplicated bigint, unaccounted bigint, state string"
)


@frozen
class _Known:
    """The known facts of all events."""

    #: The first window of each stage, and what each of its reporters has read.
    earliest: Mapping[Stage, int]
    extents: Mapping[Stage, Mapping[Reporter, Extent]]
    #: The reporters of which events are missing.
    incomplete: Collection[Reporter]
    #: One of the topics among which mirrors copy, for each of them.
    families: Mapping[str, str]


def reconcile(
    events: DataFrame,
    *,
    width: int = DEFAULT_WIDTH,
    grace: int = DEFAULT_GRACE,
    now: int | None = None,
    begin: int = 0,
    end: int | None = None,
) -> DataFrame:
    """Return a table of the verdicts on windows of ``width`` ms, with the columns of ``logd audit --parquet``.

    ``events`` has the messages of ``_audit`` in column ``value``; what is no event is left out, as are events whose
    windows are not parts of these. ``now``, by default the present, ``begin`` and ``end`` (before it) are in ms since
    the epoch. Column ``window`` is in ms too.
    """
    at = time.time_ns() // 1_000_000 if now is None else now
    session = events.sparkSession
    keyed = events.select("value").rdd.flatMap(_decoded)
    # Repeated events are left out; those that remain are read twice.
    unique: Any = keyed.reduceByKey(lambda event, _: event).values().persist()
    try:
        found = (
            unique.map(lambda event: (event.reporter, (event.sequence, event.sequence, 1)))
            .reduceByKey(lambda one, two: (min(one[0], two[0]), max(one[1], two[1]), one[2] + two[2]))
            .filter(lambda each: each[1][1] - each[1][0] + 1 != each[1][2])
            .keys()
            .collect()
        )
        fit = unique.filter(lambda event: not width % event.width)
        earliest = fit.map(lambda event: (_stage_of(event), window_of(event.window, width))).reduceByKey(min)
        extents: dict[Stage, dict[Reporter, Extent]] = {}
        spans = fit.filter(lambda event: event.last and event.tier is not Tier.PRODUCED)
        spans = spans.map(lambda event: ((_stage_of(event), event.reporter), (dict(event.first), dict(event.last))))
        for (stage, reporter), (first, last) in spans.reduceByKey(_joined).collect():
            extents.setdefault(stage, {})[reporter] = Extent(first, last)
        first_windows = earliest.collectAsMap()
        known = session.sparkContext.broadcast(
            _Known(first_windows, extents, frozenset(found), _families(first_windows))
        )
        grouped = fit.map(
            lambda event: ((known.value.families[event.topic], window_of(event.window, width) // _DAY), event)
        ).groupByKey()
        rows = grouped.flatMap(lambda group: _judged(group[0], group[1], known.value, width, grace, at, begin, end))
        return session.createDataFrame(rows, _SCHEMA)
    finally:
        unique.unpersist()


def _decoded(row: Any) -> Iterator[tuple[tuple[Reporter, int], AuditEvent]]:
    try:
        event = decode_event(None if row.value is None else bytes(row.value))
    except ValueError:
        return
    yield (event.reporter, event.sequence), event


def _stage_of(event: AuditEvent) -> Stage:
    return Stage(event.topic, event.cluster, event.tier, event.group, event.source, event.copy)


def _joined(
    one: tuple[dict[int, int], dict[int, int]], two: tuple[dict[int, int], dict[int, int]]
) -> tuple[dict[int, int], dict[int, int]]:
    widen(*one, *two)
    return one


def _families(stages: Iterable[Stage]) -> dict[str, str]:
    """Return one of the topics among which mirrors copy, the same for all of them, for each topic."""
    found: dict[str, str] = {}
    for stage in stages:
        found.setdefault(stage.topic, stage.topic)
        if stage.copy:
            ours, theirs = found[stage.topic], found.setdefault(stage.copy, stage.copy)
            found |= {topic: ours for topic, family in found.items() if family == theirs}
    return found


def _judged(
    key: tuple[str, int],
    events: Iterable[AuditEvent],
    known: _Known,
    width: int,
    grace: int,
    now: int,
    begin: int,
    end: int | None,
) -> Iterator[dict[str, Any]]:
    sums = Reconciliation(width)
    for stage in known.earliest:
        if known.families[stage.topic] == key[0]:
            sums.stages[stage] = {}
    sums.add_all(events)
    sums.incomplete = known.incomplete
    sums.earliest = dict(known.earliest)
    sums.extents = {stage: dict(extents) for stage, extents in known.extents.items()}
    for verdict in judge(sums, now, grace=grace, begin=begin, end=end):
        yield as_fields(verdict)
