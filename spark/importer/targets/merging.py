"""Chooses the runs of a target to merge, and makes the offsets of the merged run from theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby

from attrs import evolve

from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.offsets import Lineage, Loaded, MergedRun, RunOffsets

#: The units whose runs become one, with the form of their names.
UNITS = {"date": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}


def unit_name(unit: str, time_ms: int) -> str:
    """Return the date, or date and hour, in UTC, of a time in ms since 1970."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(UNITS[unit])


def finished_spans(runs: Sequence[RunOffsets], unit: str, now_ms: int) -> list[tuple[RunOffsets, ...]]:
    """Return the groups of runs to merge: consecutive runs that began on one date (or hour), which is over.

    The last run is never merged: the next import plans from it, and on file systems without locks may do so now. A run
    that records a loss begins a new group, since ids before and behind a loss may be the same. So does one with other
    folders or another format.
    """
    groups: list[list[RunOffsets]] = []
    for name, members in groupby(runs[:-1], lambda run: unit_name(unit, run.began_ms)):
        if name >= unit_name(unit, now_ms):
            continue
        group: list[RunOffsets] = []
        for run in members:
            if group and (run.lost or _shape(run) != _shape(group[-1])):
                groups.append(group)
                group = []
            group.append(run)
        groups.append(group)
    return [tuple(group) for group in groups if len(group) > 1]


def _shape(run: RunOffsets) -> tuple[object, ...]:
    return run.format, run.data.get("format"), tuple(run.data.get("partition_by", ()))


def merge(runs: Sequence[RunOffsets]) -> RunOffsets:
    """Return the offsets of a run that has all messages of ``runs``, and takes their place in the chain.

    It has number, uuid and positions of the last one, so that the run behind it follows it, too. Raises TargetError
    unless the runs follow one another.
    """
    check_chain(runs)
    first, last = runs[0], runs[-1]
    loaded: dict[Lineage, Loaded] = {}
    for run in runs:
        for each in run.loaded:
            before = loaded.get(each.lineage)
            loaded[each.lineage] = each if before is None else _joined(before, each)
    return evolve(
        last,
        previous_uuid=first.previous_uuid,
        loaded=tuple(loaded[lineage] for lineage in sorted(loaded)),
        lost=first.lost,
        backfilled=tuple(each for run in runs for each in run.backfilled),
        merged=tuple(each for run in runs for each in run.merged or (MergedRun.of(run),)),
    )


def _joined(before: Loaded, after: Loaded) -> Loaded:
    return evolve(
        before,
        end=after.end,
        messages=before.messages + after.messages,
        bytes=before.bytes + after.bytes,
        quarantined=before.quarantined + after.quarantined,
    )
