"""Checks a target without Spark: every run follows the previous one, and its files have the recorded messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from logd.plurals import counted
from logd.spark.importer.errors import TargetError
from logd.spark.importer.settings import local_path
from logd.spark.importer.table_location import is_table
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.layout import OFFSETS, QUARANTINE, run_name
from logd.spark.importer.targets.local import LocalTarget, check_exists
from logd.spark.importer.targets.offsets import Lost, RunOffsets
from logd.spark.importer.targets.target import check_not_compacting, read_run


@frozen
class Verified:
    """The result of a check. ``counted`` runs hold Parquet, whose footers were counted.

    ``lost`` are the losses that the runs skipped, by the number of the run.
    """

    location: str
    runs: int
    messages: int
    counted: int
    lost: Sequence[tuple[int, Lost]] = ()

    def sentence(self) -> str:
        """Return the result in one sentence."""
        counts = f"{counted(self.messages, 'message')}, counted in the files of {counted(self.counted, 'run')}"
        return f"{self.location}: {counted(self.runs, 'run')} in order, {counts}"

    def notices(self) -> list[str]:
        """Return each loss of a run in one sentence."""
        return [f"{run_name(run)}: {each.lineage}: {each.reason}" for run, each in self.lost]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        return {
            "to": self.location,
            "runs": self.runs,
            "messages": self.messages,
            "counted_runs": self.counted,
            "lost": [{"run": run, **each.to_json()} for run, each in self.lost],
        }


def verify(to: str) -> Verified:
    """Check the target ``to``, a table or on the local file system. Raises TargetError that names the defect.

    Raises RunLost while a compaction exchanges runs.
    """
    if is_table(to):
        return _verify_table(to)
    path = local_path(to)
    if path is None:
        raise TargetError(f"{to} is not on the local file system: --verify cannot read it")
    check_exists(path)
    target = LocalTarget(path)
    check_not_compacting(target)
    runs = [read_run(target, number) for number in target.runs()]
    check_chain(runs)
    counted = 0
    for run in runs:
        if run.data.get("format") == "parquet":
            counted += 1
            _check_count(Path(target.location, run_name(run.run)), run)
    lost = [(run.run, each) for run in runs for each in run.lost]
    return Verified(target.location, len(runs), sum(run.messages for run in runs), counted, lost)


def _verify_table(to: str) -> Verified:
    from logd.spark.importer.targets.iceberg import IcebergTarget

    target = IcebergTarget(to)
    try:
        missing = target.missing_files()
        rows = target.rows()
        runs = [read_run(target, number) for number in sorted(rows)]
    finally:
        target.close()
    check_chain(runs)
    if missing:
        raise TargetError(
            f"{target.location}: {counted(len(missing), 'data file')} of its current snapshot cannot be found, the "
            f"first is {missing[0]}: put the file back, or roll the table back to before its run, and import again"
        )
    for run in runs:
        if rows[run.run] != run.messages:
            raise TargetError(
                f"{target.location}: the snapshot of run {run.run} added {rows[run.run]} messages, but its offsets say "
                f"{run.messages}"
            )
    lost = [(run.run, each) for run in runs for each in run.lost]
    return Verified(target.location, len(runs), sum(run.messages for run in runs), len(runs), lost)


def _check_count(folder: Path, run: RunOffsets) -> None:
    import pyarrow.parquet

    for place, recorded in ((folder, run.messages - run.quarantined), (folder / QUARANTINE, run.quarantined)):
        rows = 0
        for path in _files(place):
            try:
                rows += pyarrow.parquet.read_metadata(path).num_rows
            except (OSError, ValueError) as error:
                raise TargetError(f"{path} cannot be read: {error}") from None
        if rows != recorded:
            raise TargetError(f"the files of {place} have {rows} messages, but its {OFFSETS} says {recorded}")


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that readers see."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
            yield path
