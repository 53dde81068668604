"""Loads planned ranges with Spark into a staged folder, and counts the messages read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from attrs import frozen
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from logd.spark.importer.import_plan import PlannedRange, least_tasks
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.targets.offsets import PlaceColumns
from logd.spark.worker.options import cluster_options

#: Settings of Spark's output. Version 1 of the commit moves the files of a task into the job once, after the task's
#: commit, so that a task that failed or was too slow leaves nothing.
COMMIT = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@frozen
class Read:
    """The messages read by the successful tasks, and their bytes of log."""

    messages: int
    bytes: int
    #: Those of the messages that cannot be decoded.
    quarantined: int = 0


def load(
    session: SparkSession,
    settings: ImportSettings,
    ranges: Sequence[PlannedRange],
    folder: str,
    began_ms: int,
    columns: PlaceColumns,
) -> Read:
    """Write the messages of ``ranges`` into ``folder``, which must not exist. Raises the errors of Spark."""
    messages = source(session, settings, ranges)
    folders: Sequence[str] = settings.partition_by
    if settings.to_table:
        messages, folders = with_table_folders(messages, folders)
    else:
        messages = with_folders(messages, folders, began_ms)
    observation = Observation("read")
    messages = messages.observe(
        observation,
        f.count(f.lit(1)).alias("messages"),
        f.sum(f.col("next_position") - f.col("id")).alias("bytes"),
    )
    if columns.id != "id":
        renamed = {"id": columns.id, "next_position": columns.next_position}
        messages = messages.drop("offset").withColumnsRenamed(renamed)
    if settings.format == "json":
        messages = _readable(messages)
    writer = messages.write.format(settings.format).mode("errorifexists").options(**COMMIT)
    writer = writer.option("compression", settings.compression)
    if folders:
        writer = writer.partitionBy(*folders)
    writer.save(folder)
    seen = observation.get
    return Read(int(seen["messages"]), int(seen["bytes"] or 0))


def source(
    session: SparkSession,
    settings: ImportSettings,
    ranges: Sequence[PlannedRange],
    more: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the messages of ranges as a data frame; ``more`` are further options of the source."""
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        topic, _, partition = each.lineage
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = each.start
        ends.setdefault(topic, {})[str(partition)] = each.end
    options = {
        **cluster_options(settings.cluster),
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        # Losses before the load are in the plan; a loss during the load needs a new plan.
        "failOnDataLoss": "true",
        "maxBytesPerPartition": str(settings.task_bytes),
        "maxDecompressedBytes": str(settings.max_decompressed),
        "maxDecompressedMessages": str(settings.max_decompressed_messages),
        "minPartitions": str(least_tasks(ranges, session.sparkContext.defaultParallelism)),
        **(more or {}),
    }
    return session.read.format("logd").options(**options).load().drop("timestampType")


def with_folders(messages: DataFrame, folders: Sequence[str], began_ms: int) -> DataFrame:
    """Add the columns that become folders: UTC date and hour of the message, or of the import if it has no time."""
    began = f.lit(datetime.fromtimestamp(began_ms / 1000, UTC))
    time: Column = f.coalesce(f.col("timestamp"), began)
    # Without date_format, which would take a tenth of a load's time.
    for name, part in (("date", time.cast("date")), ("hour", f.lpad(f.hour(time).cast("string"), 2, "0"))):
        if name in folders:
            messages = messages.withColumn(name, part)
    return messages


def with_table_folders(messages: DataFrame, folders: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Add columns that divide the files by the partitions of a table, and return their names.

    The files of a table keep the columns by which they are divided: it takes the partition of a file from these.
    Messages without a time have a partition of their own.
    """
    divided: dict[str, Column] = {}
    if "topic" in folders:
        divided["by_topic"] = f.col("topic")
    if "hour" in folders:
        # Hours since the epoch, as Iceberg counts them; no message is older than that.
        divided["by_hour"] = f.expr(f"unix_micros(`timestamp`) DIV {3600 * 1_000_000}")
    elif "date" in folders:
        divided["by_day"] = f.unix_date(f.col("timestamp").cast("date"))
    return messages.withColumns(divided), list(divided)


def _readable(messages: DataFrame) -> DataFrame:
    """Return keys and values as text if they are UTF-8, else in base64 in columns of their own, as in logd consume."""
    for name in ("key", "value"):
        text = f.col(name).cast("string")
        is_text = f.expr(f"is_valid_utf8(CAST(`{name}` AS STRING))")
        messages = messages.withColumn(f"{name}_base64", f.when(~is_text, f.base64(f.col(name))))
        messages = messages.withColumn(name, f.when(is_text, text))
    return messages
