"""The counts of an import: the messages of a run by window of time, topic and server, and their events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from socket import gethostname
from typing import TYPE_CHECKING, NamedTuple

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, SERVER_HEADER, AuditEvent, Reporter, Tier
from logd.audit.spans import Span
from logd.audit.tallies import origin_of
from logd.spark.importer.import_plan import PlannedRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The columns that the audit reads, in the files of a run.
_COLUMNS = "topic STRING, partition INT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class RowTally(NamedTuple):
    """Messages of one partition, window and server in the files of a run."""

    topic: str
    partition: int
    #: A time in the window, in ms.
    time: int
    origin: str
    messages: int


def tally_files(
    session: SparkSession, file_format: str, folder: str, width: int, quarantine: str | None = None
) -> list[RowTally]:
    """Return the tallies of the messages in a staged folder, in order. ``width``: of the windows, in ms.

    Messages in its folder ``quarantine`` count, if that is given: they are stored, although they cannot be decoded.

    Messages without a time are in no window. Raises the errors of Spark.
    """
    from pyspark.sql import functions as f

    reader = session.read.schema(_COLUMNS).format(file_format)
    names = ("topic", "partition", "timestamp", "headers")
    files = reader.load(folder).select(*names)
    if quarantine is not None:
        files = files.unionByName(reader.load(quarantine).select(*names))
    rows = files.where("timestamp IS NOT NULL").select(
        "topic",
        "partition",
        f.expr(f"unix_millis(timestamp) - pmod(unix_millis(timestamp), {width})").alias("time"),
        f.expr(f"get(filter(headers, each -> each.key = '{SERVER_HEADER}'), 0).value").alias("server"),
    )
    found: dict[tuple[str, int, int, str], int] = {}
    for row in rows.groupBy("topic", "partition", "time", "server").count().collect():
        server = row["server"]
        origin = origin_of(((SERVER_HEADER, None if server is None else bytes(server)),))
        where = row["topic"], row["partition"], row["time"], origin
        found[where] = found.get(where, 0) + row["count"]
    return [RowTally(*where, messages) for where, messages in sorted(found.items())]


def events_of(
    tallies: Sequence[RowTally], ranges: Sequence[PlannedRange], width: int, cluster: str, reporter: Reporter
) -> list[AuditEvent]:
    """Return the events of one run, the same for the same run."""
    counter = WindowCounter(Tier.LOADED, reporter, width, cluster=cluster, opens=False)
    spans = {
        (each.lineage.topic, each.lineage.partition): Span(each.lineage.partition, each.start, each.end - 1)
        for each in ranges
    }
    for topic, partition, when, origin, messages in tallies:
        if topic != AUDIT_TOPIC:
            counter.add(topic, when, origin, messages, None, when, spans[topic, partition])
    return counter.take_events(0, end=True)


def reporter_of(run: str, server: str) -> Reporter:
    """Return the reporter of a run, by its uuid; ``server`` is by default the host's name."""
    return Reporter(server or gethostname(), os.getpid(), run)
