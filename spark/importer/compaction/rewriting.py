"""Writes the messages of several runs into one staged folder with Spark, and compares every value of old and new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from logd.spark.importer.errors import ImportFailed, TargetError
from logd.spark.importer.loading import COMMIT
from logd.spark.importer.targets.layout import QUARANTINE, run_name
from logd.spark.importer.targets.offsets import PLACE_COLUMNS, RunOffsets

#: Spark's settings while runs are rewritten.
_SETTINGS = {
    # Folders are text: the name of a topic may look like a number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # One writer at a time, which keeps the order of the rows; several would sort them anew by their folder alone.
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@frozen
class Sums:
    """The messages of one partition of a topic, their bytes of log, the first id and the last position after one.

    ``values`` is the sum of a hash over all values of each message: the same for the same messages in any order.
    """

    messages: int
    bytes: int
    first: int
    last: int
    values: int


@frozen
class _Counts:
    """The counts of a partition in files or in offsets; ``quarantined`` are those of the messages not decoded."""

    messages: int = 0
    bytes: int = 0
    quarantined: int = 0

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(self.messages + other.messages, self.bytes + other.bytes, self.quarantined + other.quarantined)

    def __str__(self) -> str:
        wrong = f", {self.quarantined} of them in quarantine" if self.quarantined else ""
        return f"{self.messages} messages ({self.bytes} bytes{wrong})"


def rewrite(
    session: SparkSession,
    location: str,
    runs: Sequence[RunOffsets],
    folder: str,
    tasks: int,
    parts: Mapping[str, Sequence[str]],
) -> tuple[int, int]:
    """Write the messages of ``runs`` below ``location`` into ``folder``, and return the numbers of files before and
    after.

    Each part of ``parts`` is written by itself: it is the name of a topic's folder, or that of the quarantine, with the
    runs' folders that have it; or empty, for all topics together. Columns that only some runs have are kept, with null
    in the others' messages.

    Raises TargetError if the old files do not hold what their offsets record, ImportFailed if the new ones differ from
    them, and the errors of Spark.
    """
    last = runs[-1]
    place = PLACE_COLUMNS[last.format]
    folders = list(last.data.get("partition_by", ()))
    with _configured(session, _SETTINGS):
        reader = session.read.option("mergeSchema", "true").option("basePath", location)
        old = {
            part: reader.parquet(*(f"{location}/{run}/{part}".rstrip("/") for run in names)).drop("run")
            for part, names in parts.items()
        }
        before = {part: _sums(messages, place.id, place.next_position) for part, messages in old.items()}
        _check_recorded(location, runs, before)
        sizes = {part: sum(each.bytes for each in sums.values()) for part, sums in before.items()}
        files = 0
        for part, messages in old.items():
            by = [] if part == QUARANTINE else [name for name in folders if not (part and name == "topic")]
            order = [f.col(f"`{name}`") for name in dict.fromkeys((*by, "topic", "partition", place.id))]
            share = max(1, -(-tasks * sizes[part] // max(1, sum(sizes.values()))))
            spread = messages.repartitionByRange(share, *order) if share > 1 else messages.coalesce(1)
            rows = spread.sortWithinPartitions(*order)
            in_topic = part not in ("", QUARANTINE)
            writer = (rows.drop("topic") if in_topic else rows).write.format("parquet").mode("errorifexists")
            writer = writer.options(**COMMIT).option("compression", last.data.get("codec", "zstd"))
            if by:
                writer = writer.partitionBy(*by)
            writer.save(f"{folder}/{part}".rstrip("/"))
            written = session.read.option("basePath", folder).parquet(f"{folder}/{part}".rstrip("/"))
            files += len(written.inputFiles())
            written = written.select(*(f"`{name}`" for name in messages.columns))
            _check_same(before[part], _sums(written, place.id, place.next_position))
        return sum(len(messages.inputFiles()) for messages in old.values()), files


def _check_same(before: Mapping[tuple[str, int], Sums], after: Mapping[tuple[str, int], Sums]) -> None:
    if after != before:
        where = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))[0]
        raise ImportFailed(
            f"the merged files differ from the runs in topic {where[0]!r}, partition {where[1]}: "
            f"{before.get(where)} before, {after.get(where)} after; the runs are unchanged"
        )


def _sums(messages: DataFrame, id_column: str, next_column: str) -> dict[tuple[str, int], Sums]:
    values = [_comparable(f.col(f"`{each.name}`"), each.dataType) for each in messages.schema.fields]
    rows = (
        messages.groupBy("topic", "partition")
        .agg(
            f.count(f.lit(1)).alias("messages"),
            f.sum(f.col(next_column) - f.col(id_column)).alias("bytes"),
            f.min(id_column).alias("first"),
            f.max(next_column).alias("last"),
            f.sum(f.xxhash64(*values).cast("decimal(38,0)")).alias("values"),
        )
        .collect()
    )
    return {
        (row["topic"], row["partition"]): Sums(
            *(int(row[name]) for name in ("messages", "bytes", "first", "last", "values"))
        )
        for row in rows
    }


def _comparable(column: Column, kind: DataType) -> Column:
    """Return a column as one that Spark can hash: it refuses maps, also inside other types."""
    return f.to_json(f.struct(column)) if _has_map(kind) else column


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(each.dataType) for each in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))


def _check_recorded(
    location: str, runs: Sequence[RunOffsets], parts: Mapping[str, Mapping[tuple[str, int], Sums]]
) -> None:
    """Raise TargetError unless the old files hold what the offsets of their runs record, in the quarantine as well."""
    recorded: dict[tuple[str, int], _Counts] = {}
    for run in runs:
        for each in (*run.loaded, *run.backfilled):
            where = each.lineage.topic, each.lineage.partition
            counts = _Counts(each.messages, each.bytes, each.quarantined)
            recorded[where] = recorded.get(where, _Counts()).plus(counts)
    found: dict[tuple[str, int], _Counts] = {}
    for part, sums in parts.items():
        for where, here in sums.items():
            counts = _Counts(here.messages, here.bytes, here.messages if part == QUARANTINE else 0)
            found[where] = found.get(where, _Counts()).plus(counts)
    for where in sorted({*found, *recorded}):
        have, said = found.get(where, _Counts()), recorded.get(where, _Counts())
        if have != said:
            raise TargetError(
                f"{location}: the files of {run_name(runs[0].run)} to {run_name(runs[-1].run)} hold {have} of topic "
                f"{where[0]!r}, partition {where[1]}, but their offsets record {said}: nothing is merged"
            )


@contextmanager
def _configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            if former is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, former)
