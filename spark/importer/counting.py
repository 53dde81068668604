"""Counts the messages in the written files and compares them with the plan, before the run becomes visible."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.loading import Read
from logd.spark.importer.targets.offsets import Loaded, PlaceColumns

#: The columns that counting reads, a small part of the data in Parquet, which is stored by columns.
_COLUMNS = "topic STRING, partition INT, `{}` BIGINT, `{}` BIGINT"


def count(
    session: SparkSession,
    file_format: str,
    folder: str,
    ranges: Sequence[PlannedRange],
    columns: PlaceColumns,
    quarantine: str | None = None,
    reason: str | None = None,
) -> list[Loaded]:
    """Return the counts of each range in the files of a staged folder, and of its folder ``quarantine`` if given.

    ``reason``: the column that is not null in messages that cannot be decoded, if these are among the others.

    Raises ImportFailed if the files hold messages outside the plan, or more than fit into a range.
    """
    planned = {(each.lineage.topic, each.lineage.partition): each for each in ranges}
    schema = _COLUMNS.format(columns.id, columns.next_position) + ("" if reason is None else f", `{reason}` STRING")
    reader = session.read.schema(schema).format(file_format)
    wrong = f.lit(0) if reason is None else f.col(reason).isNotNull().cast("int")
    names = ("topic", "partition", columns.id, columns.next_position)
    files = reader.load(folder).select(*names, wrong.alias("wrong"))  # without the folders for dates
    if quarantine is not None:
        files = files.unionByName(reader.load(quarantine).select(*names, f.lit(1).alias("wrong")))
    groups = files.groupBy("topic", "partition").agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum(f.col(columns.next_position) - f.col(columns.id)).alias("bytes"),
        f.min(columns.id).alias("first"),
        f.max(columns.next_position).alias("last"),
        f.sum("wrong").alias("quarantined"),
    )
    found = {}
    for row in groups.collect():
        where = row["topic"], row["partition"]
        expected = planned.get(where)
        if expected is None or row["first"] < expected.start or row["last"] > expected.end:
            raise ImportFailed(
                f"the files hold ids {row['first']} to {row['last']} of topic {where[0]!r}, partition {where[1]}; "
                f"planned was {'nothing' if expected is None else f'{expected.start} to {expected.end}'}"
            )
        if row["bytes"] > expected.bytes:
            raise ImportFailed(
                f"the files hold messages of topic {where[0]!r}, partition {where[1]} more than once: "
                f"{row['bytes']} bytes in a range of {expected.bytes}"
            )
        found[where] = row
    loaded = []
    for where, each in planned.items():
        counted = ("messages", "bytes", "quarantined")
        counts = (int(found[where][name]) for name in counted) if where in found else (0, 0, 0)
        loaded.append(Loaded(each.lineage, each.start, each.end, *counts))
    return loaded


def check(loaded: Sequence[Loaded], read: Read) -> None:
    """Raise ImportFailed unless the files hold as many messages and bytes as the tasks read."""
    written = Read(
        sum(each.messages for each in loaded),
        sum(each.bytes for each in loaded),
        sum(each.quarantined for each in loaded),
    )
    if written != read:
        raise ImportFailed(
            f"{read.messages} messages ({read.bytes} bytes, {read.quarantined} not decoded) were read, but the files "
            f"hold {written.messages} ({written.bytes} bytes, {written.quarantined} not decoded)"
        )
