"""Plans a backfill: of a range of the past, the ids that the target lacks. The position of the daily import stays."""

from __future__ import annotations

from collections.abc import Sequence

from logd.spark.importer.errors import TargetError
from logd.spark.importer.import_plan import LogState, Plan, PlannedRange
from logd.spark.importer.targets.layout import run_name
from logd.spark.importer.targets.offsets import Lineage, RunOffsets


def plan_backfill(
    starts: Sequence[LogState], ends: Sequence[LogState], runs: Sequence[RunOffsets], location: str
) -> Plan:
    """Plan the ids from ``first`` of ``starts`` up to ``first`` of ``ends`` that no run of the target has.

    Only ids below the target's positions are planned: the others are the next import's. Of each partition the lowest
    missing range is planned; a notice says if there are more. ``runs`` are all runs of the target.

    Raises TargetError where the target does not tell what it has: if runs were removed, if it has no position for a
    partition, or if a log gave the same ids twice.
    """
    if not runs:
        raise TargetError(
            f"{location} has no runs yet, so it is not known where its daily import begins: run an import without "
            "--backfill first, with --from latest if it is to load only what comes"
        )
    if runs[0].first_run != 1:
        raise TargetError(
            f"{location}: the runs before {run_name(runs[0].first_run)} were removed, and with them the record of the "
            "messages that they had: a backfill might load them twice, so name another directory"
        )
    positions = runs[-1].positions
    ranges: list[PlannedRange] = []
    notices: list[str] = []
    until = {each.lineage: each.first for each in ends}
    for state in sorted(starts, key=lambda each: each.lineage):
        lineage = state.lineage
        position = positions.get(lineage)
        if position is None:
            raise TargetError(
                f"{location} has no position for {lineage}, so it is not known where its daily import begins: run an "
                "import without --backfill first, with --from latest if it is to load only what comes"
            )
        if any(each.lineage == lineage and each.end < each.start for run in runs for each in run.lost):
            raise TargetError(
                f"the log of {lineage} ended before the position of {location} once and gave ids again: a backfill "
                "might load messages twice, so name another directory"
            )
        begin, end = max(state.first, state.log_start), min(until.get(lineage, position), state.visible_end)
        if state.first < state.log_start:
            notices.append(f"{lineage}: the log begins at {state.log_start}; messages before it are no more")
        if end > position:
            notices.append(f"{lineage}: ids from {position} on are left to the next import without --backfill")
            end = position
        missing = _missing(begin, end, covered(lineage, runs))
        if missing:
            ranges.append(PlannedRange(lineage, *missing[0]))
        if len(missing) > 1:
            notices.append(f"{lineage}: {len(missing) - 1} more ranges are missing: run the backfill again")
    return Plan(tuple(ranges), (), positions, {}, tuple(notices))


def covered(lineage: Lineage, runs: Sequence[RunOffsets]) -> list[tuple[int, int]]:
    """Return the ranges of ids that the runs have of one partition, in ascending order."""
    return sorted(
        (each.start, each.end) for run in runs for each in (*run.loaded, *run.backfilled) if each.lineage == lineage
    )


def _missing(begin: int, end: int, have: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of ``begin`` to ``end`` that are in none of the ranges ``have``, which are ascending."""
    found = []
    for start, stop in have:
        if begin < min(start, end):
            found.append((begin, min(start, end)))
        begin = max(begin, stop)
    if begin < end:
        found.append((begin, end))
    return found
