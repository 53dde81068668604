"""The report of a compaction: rows of a table for people, JSON types for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from logd.plurals import counted

COLUMNS = ("runs", "merged into", "messages", "bytes", "files before", "files after")


@frozen
class MergedGroup:
    """Runs ``first_run`` to ``run`` that became run ``run``; ``bytes`` are of log. A dry run counts no files."""

    first_run: int
    run: int
    runs: int
    messages: int
    bytes: int
    files_before: int | None = None
    files_after: int | None = None


@frozen
class CompactionReport:
    """The result of a compaction. ``finished``: one that was killed before was finished first. Times are in seconds."""

    location: str
    groups: Sequence[MergedGroup]
    dry_run: bool = False
    finished: bool = False
    seconds: float = 0.0

    def rows(self) -> list[tuple[object, ...]]:
        """Return a row with COLUMNS for each group."""
        return [
            (each.runs, each.run, each.messages, each.bytes, each.files_before, each.files_after)
            for each in self.groups
        ]

    def sentence(self) -> str:
        """Return the result in one sentence."""
        before = "finished a compaction that was interrupted; " if self.finished else ""
        if not self.groups:
            return f"{before}{self.location} has no runs to merge"
        runs = counted(sum(each.runs for each in self.groups), "run")
        if self.dry_run:
            return f"{before}would merge {runs} of {self.location} into {len(self.groups)}"
        files = sum(each.files_before or 0 for each in self.groups), sum(each.files_after or 0 for each in self.groups)
        return (
            f"{before}merged {runs} of {self.location} into {len(self.groups)}, {counted(files[0], 'file')} into "
            f"{files[1]:,}, in {self.seconds:.1f} s"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "to": self.location,
            "dry_run": self.dry_run,
            "finished_an_interrupted_one": self.finished,
            "seconds": round(self.seconds, 3),
            "groups": [asdict(each) for each in self.groups],
        }
