"""A process with one Spark session for several imports: ``python -m tests.integration.spark.import_loop DIR BROKER``.

Each line of its input is a command; its answer is a line of JSON. ``import`` imports what is new, with small tasks, so
that there are many to lose; ``sum`` reads all of DIR with Spark.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from logd.errors import LogdError
from logd.spark.blocking.cluster import ClusterSettings
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.run import Importer
from logd.spark.importer.session import LOCAL_MASTER, open_session
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.spark_loader import SparkLoader

TOPIC = "t"
TASK_BYTES = 1 << 20


def main(folder: str, broker: str) -> None:
    """Answer until the input ends."""
    settings = ImportSettings(
        subscription=SourceSubscription(topics=(TOPIC,)),
        to=folder,
        cluster=ClusterSettings(brokers=broker, retry_timeout=300.0),
        task_bytes=TASK_BYTES,
    )
    session = open_session("test", LOCAL_MASTER, {}, 0)  # as for few bytes: full compilation would not pay
    _answer({"ready": True})
    for line in sys.stdin:
        if line.strip() == "sum":
            _answer(_sum(session, folder))
            continue
        try:
            _answer(Importer(settings, SparkLoader(settings, session=session)).run().to_json())
        except LogdError as error:
            _answer({"error": type(error).__name__, "text": str(error)})


def _sum(session: SparkSession, folder: str) -> dict[str, Any]:
    messages = session.read.parquet(folder)
    row = messages.select(
        f.count(f.lit(1)).alias("messages"),
        f.countDistinct("partition", "offset").alias("places"),
        f.sum(f.crc32("value")).alias("checksums"),
        f.countDistinct("run").alias("runs"),
    ).collect()[0]
    return row.asDict()


def _answer(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
