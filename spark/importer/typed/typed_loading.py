"""Loads typed values: one job for each topic, and one more for all messages that cannot be decoded, if there are any.

Topics have schemas of their own, so each one's files are written, and are to be read, apart from the others'. The last
job reads ranges again, which costs nothing as long as all messages can be decoded; both see the same bytes.

A table has the values of one topic. Messages that cannot be decoded are rows of it, without a value and with the
reason, since a file beside the table's would be none of its snapshot, and its engines would remove it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from attrs import evolve
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from logd.spark.blocking.schema_lookup import TEXT, ReaderSchema
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.loading import COMMIT, Read, source, with_folders, with_table_folders
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.targets.layout import QUARANTINE
from logd.spark.importer.typed.quarantine import PAYLOAD, REASON, TABLE_PAYLOAD
from logd.spark.worker.options import PERMISSIVE


def load_typed(
    session: SparkSession,
    settings: ImportSettings,
    ranges: Sequence[PlannedRange],
    folder: str,
    began_ms: int,
    readers: Mapping[str, ReaderSchema],
    topic_done: Callable[[int], None],
) -> Read:
    """Write the messages of ``ranges`` into ``folder``, which must not exist. Raises the errors of Spark.

    ``topic_done`` is called after each topic with the bytes of log loaded so far.
    """
    total = Read(0, 0)
    done = 0
    quarantined: list[DataFrame] = []
    for topic, reader in readers.items():
        ours = [each for each in ranges if each.lineage.topic == topic]
        read = _load_topic(session, settings, ours, folder, began_ms, topic, reader)
        total = evolve(
            total,
            messages=total.messages + read.messages,
            bytes=total.bytes + read.bytes,
            quarantined=total.quarantined + read.quarantined,
        )
        if read.quarantined:
            wrong = _decoded(session, settings, ours, reader).where(f.col(REASON).isNotNull())
            quarantined.append(wrong.withColumn("value", f.col(PAYLOAD)).drop(PAYLOAD))
        done += sum(each.bytes for each in ours)
        topic_done(done)
    if quarantined:
        # One folder without folders in it, so that Spark reads those of many runs together.
        _write(reduce(DataFrame.unionByName, quarantined), settings, f"{folder}/{QUARANTINE}", ())
    return total


def load_typed_table(
    session: SparkSession,
    settings: ImportSettings,
    ranges: Sequence[PlannedRange],
    folder: str,
    reader: ReaderSchema,
) -> Read:
    """Write the messages of one topic into ``folder``, which must not exist, as files for a table.

    Raises the errors of Spark.
    """
    messages, observation = _observed(_decoded(session, settings, ranges, reader))
    payload = f.when(f.col(REASON).isNotNull(), f.col(PAYLOAD))
    messages = messages.withColumn(TABLE_PAYLOAD, payload).drop(PAYLOAD)
    messages, folders = with_table_folders(messages, settings.partition_by)
    _write(messages, settings, folder, folders)
    return _read(observation)


def _load_topic(
    session: SparkSession,
    settings: ImportSettings,
    ranges: Sequence[PlannedRange],
    folder: str,
    began_ms: int,
    topic: str,
    reader: ReaderSchema,
) -> Read:
    seen, observation = _observed(_decoded(session, settings, ranges, reader))
    sound = with_folders(seen.where(f.col(REASON).isNull()).drop(REASON, PAYLOAD), settings.partition_by, began_ms)
    _write(sound.drop("topic"), settings, f"{folder}/topic={topic}", settings.partition_by[1:])
    return _read(observation)


def _observed(messages: DataFrame) -> tuple[DataFrame, Observation]:
    observation = Observation("read")
    seen = messages.observe(
        observation,
        f.count(f.lit(1)).alias("messages"),
        f.sum(f.col("next_position") - f.col("id")).alias("bytes"),
        f.count(REASON).alias("quarantined"),
    )
    return seen, observation


def _read(observation: Observation) -> Read:
    found = observation.get
    return Read(int(found["messages"]), int(found["bytes"] or 0), int(found["quarantined"]))


def _decoded(
    session: SparkSession, settings: ImportSettings, ranges: Sequence[PlannedRange], reader: ReaderSchema
) -> DataFrame:
    assert settings.schemas is not None
    address = settings.schemas.address
    return source(
        session,
        settings,
        ranges,
        {
            "registry": address.url,
            "registryTimeoutMs": str(max(1, round(address.timeout * 1000))),
            "readerSchema": reader.text if reader.kind == TEXT else str(reader),
            "mode": PERMISSIVE,
            "columnNameOfCorruptRecord": PAYLOAD,
            "columnNameOfCorruptReason": REASON,
        },
    )


def _write(messages: DataFrame, settings: ImportSettings, folder: str, by: Sequence[str]) -> None:
    writer = messages.write.format(settings.format).mode("errorifexists").options(**COMMIT)
    writer = writer.option("compression", settings.compression)
    (writer.partitionBy(*by) if by else writer).save(folder)
