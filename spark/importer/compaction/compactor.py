"""One compaction from beginning to end: choose the runs, write them anew, check, exchange. Each group by itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from attrs import define, evolve, frozen

from logd.errors import ConfigurationError
from logd.spark.importer.compaction.compaction_report import CompactionReport, MergedGroup
from logd.spark.importer.errors import TargetError
from logd.spark.importer.settings import local_path
from logd.spark.importer.table_location import is_table
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.layout import run_name
from logd.spark.importer.targets.local import LocalTarget, check_exists
from logd.spark.importer.targets.merging import UNITS, finished_spans, merge
from logd.spark.importer.targets.offsets import RunOffsets
from logd.spark.importer.targets.swapping import commit, finish
from logd.spark.importer.targets.target import Target, check_not_compacting, read_run

#: Bytes of log for which one task writes. Each task writes at least one file to each of its folders.
DEFAULT_FILE_BYTES = 512 << 20


@frozen(kw_only=True)
class CompactionSettings:
    """Settings of a compaction. Raises ConfigurationError for a value that is not allowed."""

    #: The target: a path of the local file system, or a URI.
    to: str
    #: The unit whose runs are merged: date or hour, in UTC.
    unit: str = "date"
    dry_run: bool = False
    file_bytes: int = DEFAULT_FILE_BYTES

    def __attrs_post_init__(self) -> None:
        if is_table(self.to):
            raise ConfigurationError(
                f"{self.to} is a table: engines for Iceberg compact it, Spark for example by CALL "
                "catalog.system.rewrite_data_files; imports go on behind"
            )
        if self.unit not in UNITS:
            raise ConfigurationError(f"compact = {self.unit!r} is not allowed; allowed is {', '.join(UNITS)}")


@frozen
class Rewritten:
    """The result of a rewriting: the numbers of data files before and after."""

    files_before: int
    files_after: int


class Rewriter(Protocol):
    """The interface of Spark's rewriter, and of its test double."""

    def rewrite(self, target: Target, runs: Sequence[RunOffsets], staged: str, tasks: int) -> Rewritten:
        """Write all messages of ``runs`` into ``target.staging(staged)``, which does not exist, sorted, by ``tasks``.

        Returns only if old and new files hold the messages that the runs' offsets record, and every value is the same.
        Raises ImportFailed, or TargetError if the old files do not agree with their offsets.
        """
        ...

    def target(self, location: str) -> Target:
        """Return a target on a file system other than the local one. Raises TargetError."""
        ...


@define(eq=False)
class Compactor:
    """Runs one compaction. ``rewriter`` is not used before there is something to merge in a local target."""

    settings: CompactionSettings
    rewriter: Rewriter
    clock: Callable[[], float] = time.time

    def run(self) -> CompactionReport:
        """Merge the runs of each finished unit, or with ``dry_run`` report them.

        Raises RunLost if an import or another compaction is running; TargetError for a damaged target; ImportFailed if
        writing failed. Then the group at work is unchanged; groups before it are merged.
        """
        began = self.clock()
        target = self.target()
        try:
            finished = False
            if self.settings.dry_run:
                check_not_compacting(target)
            else:
                target.acquire()
                finished = finish(target) is not None
                target.clean()
            runs = [read_run(target, number) for number in target.runs()]
            check_chain(runs)
            groups = []
            for span in finished_spans(runs, self.settings.unit, round(began * 1000)):
                _check_parquet(target, span)
                groups.append(self._merge(target, span))
            return CompactionReport(
                target.location, tuple(groups), self.settings.dry_run, finished, seconds=self.clock() - began
            )
        finally:
            target.close()

    def target(self) -> Target:
        """Return the target of the settings. Raises TargetError for a directory that does not exist."""
        path = local_path(self.settings.to)
        if path is None:
            return self.rewriter.target(self.settings.to)
        check_exists(path)
        return LocalTarget(path)

    def _merge(self, target: Target, span: Sequence[RunOffsets]) -> MergedGroup:
        merged = merge(span)
        group = MergedGroup(merged.first_run, merged.run, len(span), merged.messages, merged.size)
        if self.settings.dry_run:
            return group
        staged = str(uuid.uuid4())
        try:
            tasks = max(1, -(-merged.size // self.settings.file_bytes))
            done = Rewritten(0, 0)
            if merged.messages:
                done = self.rewriter.rewrite(target, span, staged, tasks)
            commit(target, staged, merged)
        except BaseException:
            # Report the original error; the next import or compaction removes the staged files.
            with suppress(Exception):
                target.discard(staged)
            raise
        return evolve(group, files_before=done.files_before, files_after=done.files_after)


def _check_parquet(target: Target, span: Sequence[RunOffsets]) -> None:
    kind = span[0].data.get("format")
    if kind != "parquet":
        raise TargetError(
            f"{target.location}/{run_name(span[0].run)} has files of format {kind!r}: only those of Parquet can be "
            "compacted; lines of JSON have no types to keep, so join them with any other tool outside of the target"
        )
