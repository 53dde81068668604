"""The report of an import or a dry run: rows of a table for people, JSON types for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from logd.plurals import counted
from logd.spark.importer.import_plan import Plan
from logd.spark.importer.targets.layout import run_name
from logd.spark.importer.targets.offsets import Loaded

COLUMNS = ("topic", "partition", "from", "to", "bytes", "messages", "gap bytes")


@frozen
class ImportReport:
    """The result of an import; ``run`` is None when nothing was new or in a dry run. Times are in seconds."""

    location: str
    plan: Plan
    run: int | None = None
    uuid: str | None = None
    loaded: Sequence[Loaded] = ()
    dry_run: bool = False
    #: From the plan to the moment when the run was visible, and the part of it in which Spark read and wrote.
    seconds: float = 0.0
    load_seconds: float = 0.0
    notices: Sequence[str] = field(default=())

    @property
    def messages(self) -> int:
        """The number of messages loaded."""
        return sum(each.messages for each in self.loaded)

    @property
    def quarantined(self) -> int:
        """The number of those that cannot be decoded, and are in the run's quarantine."""
        return sum(each.quarantined for each in self.loaded)

    @property
    def bytes(self) -> int:
        """The bytes of log loaded or, in a dry run, to load."""
        return sum(each.bytes for each in self.loaded) if self.run is not None else self.plan.bytes

    def rows(self) -> list[tuple[object, ...]]:
        """Return a row with COLUMNS for each range; the last two are unknown in a dry run."""
        if self.run is None:
            return [(*each.lineage[::2], each.start, each.end, each.bytes, None, None) for each in self.plan.ranges]
        return [
            (
                each.lineage.topic,
                each.lineage.partition,
                each.start,
                each.end,
                each.bytes,
                each.messages,
                each.gap_bytes,
            )
            for each in self.loaded
        ]

    def sentence(self) -> str:
        """Return the result in one sentence."""
        count = len(self.plan.ranges)
        where = counted(count, "partition")
        if not count and self.run is not None:
            what = "the loss" if self.plan.lost else "where the next import begins"
            return f"loaded nothing; {self.location}/{run_name(self.run)} records {what}"
        if not count:
            return f"nothing new for {self.location}"
        if self.run is None:
            return f"would load {counted(self.plan.bytes, 'byte')} of log from {where} into {self.location}"
        rate = f", {self.messages / self.load_seconds:,.0f}/s" if self.load_seconds > 0 else ""
        return (
            f"loaded {counted(self.messages, 'message')} ({counted(self.bytes, 'byte')} of log) from {where} into "
            f"{self.location}/{run_name(self.run)} in {self.seconds:.1f} s{rate}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "to": self.location,
            "run": self.run,
            "uuid": self.uuid,
            "dry_run": self.dry_run,
            "messages": self.messages if self.run is not None else None,
            "bytes": self.bytes,
            "gap_bytes": sum(each.gap_bytes for each in self.loaded) if self.run is not None else None,
            "quarantined": self.quarantined,
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.messages / self.load_seconds) if self.load_seconds > 0 else None,
            "partitions": [
                {
                    **each.lineage._asdict(),
                    "start": each.start,
                    "end": each.end,
                    **(_counts(each) if isinstance(each, Loaded) else {}),
                }
                for each in (self.loaded if self.run is not None else self.plan.ranges)
            ],
            "lost": [each.to_json() for each in self.plan.lost],
            "notices": list(self.notices),
        }


def _counts(each: Loaded) -> dict[str, int]:
    return {"messages": each.messages, "gap_bytes": each.gap_bytes, "quarantined": each.quarantined}
