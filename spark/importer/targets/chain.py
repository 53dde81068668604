"""Checks that the runs of a target form a chain: each begins exactly where the previous one ended."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from logd.spark.importer.errors import TargetError
from logd.spark.importer.targets.layout import OFFSETS, run_name
from logd.spark.importer.targets.offsets import Lineage, Loaded, RunOffsets


def check_run(offsets: RunOffsets) -> None:
    """Raise TargetError unless a run's file is consistent: its ranges end at its positions, none occurs twice."""
    seen: set[Lineage] = set()
    for loaded in offsets.loaded:
        if loaded.lineage in seen:
            raise TargetError(f"{_name(offsets)} has {loaded.lineage} twice")
        seen.add(loaded.lineage)
        if not 0 <= loaded.start <= loaded.end or not 0 <= loaded.bytes <= loaded.end - loaded.start:
            raise TargetError(f"{_name(offsets)} has an impossible range for {loaded.lineage}")
        if offsets.positions.get(loaded.lineage) != loaded.end:
            raise TargetError(
                f"{_name(offsets)} loaded {loaded.lineage} up to {loaded.end}, "
                f"but its position is {offsets.positions.get(loaded.lineage)}"
            )

    for each in offsets.backfilled:
        if not 0 <= each.start <= each.end <= offsets.positions.get(each.lineage, -1):
            raise TargetError(f"{_name(offsets)} has an impossible range for {each.lineage}")


def check_successor(before: RunOffsets, after: RunOffsets) -> None:
    """Raise TargetError that names both files unless ``after`` begins where ``before`` ended.

    Ids that ``after`` records as lost may be missing between the two.
    """
    names = f"{_name(after)} does not go on where {_name(before)} ended"
    if after.previous_uuid != before.uuid:
        raise TargetError(f"{names}: it was made behind run {after.previous_uuid or 'none'}, not {before.uuid}")
    lost = {each.lineage: each for each in after.lost}
    loaded = {each.lineage: each for each in after.loaded}
    for lineage, position in before.positions.items():
        begin = position
        if lineage in lost and lost[lineage].end >= 0:
            if lost[lineage].start != begin:
                raise TargetError(f"{names}: {lineage} ended at {begin}, and is lost from {lost[lineage].start}")
            begin = lost[lineage].end
        if lineage not in loaded:
            if after.positions.get(lineage) != begin:
                raise TargetError(
                    f"{names}: {lineage} moved from {begin} to {after.positions.get(lineage)} without being loaded"
                )
        elif loaded[lineage].start != begin:
            kind = "overlap" if loaded[lineage].start < begin else "gap"
            raise TargetError(
                f"{names}: {kind} in {lineage}, which ended at {begin} and goes on at {loaded[lineage].start}"
            )


def check_chain(runs: Iterable[RunOffsets]) -> None:
    """Raise TargetError unless the runs, in their order, follow one another without a gap or an overlap.

    The first one may have predecessors that somebody removed.
    """
    ordered = list(runs)
    for run in ordered:
        check_run(run)
    for before, after in pairwise(ordered):
        if after.first_run != before.run + 1:
            missing = before.run + 1 if after.first_run > before.run else after.first_run - 1
            raise TargetError(f"{run_name(missing)} is missing, although {run_name(after.run)} exists")
        check_successor(before, after)
    _check_backfilled(ordered)


def _check_backfilled(runs: list[RunOffsets]) -> None:
    """Raise TargetError if a backfill loaded ids that another run has, or has itself twice."""
    for run in runs:
        for each in run.backfilled:
            for other in runs:
                for there in (*other.loaded, *other.backfilled):
                    if there is not each and there.lineage == each.lineage and _overlap(each, there):
                        raise TargetError(
                            f"{_name(run)} has ids {each.start} to {each.end} of {each.lineage}, and {_name(other)} "
                            f"has {there.start} to {there.end}: the messages of both are there twice"
                        )


def _overlap(one: Loaded, other: Loaded) -> bool:
    return max(one.start, other.start) < min(one.end, other.end)


def _name(offsets: RunOffsets) -> str:
    return f"{run_name(offsets.run)}/{OFFSETS}"
