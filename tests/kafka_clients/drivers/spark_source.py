"""Apache Spark: ``python -m drivers.spark_source BOOTSTRAP TOPIC FOLDER``, with the jars of its source in JARS.

It prints the number and the digest of the topic's records, and copies them to TOPIC-copied by a stream.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from .digest import Digest

_OPTIONS = "-XX:+UseSerialGC"


def main() -> None:
    """Read the topic, then copy it."""
    bootstrap, topic, folder = sys.argv[1:]
    jars = os.environ["JARS"]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars.replace(":", ","))
        .config("spark.driver.extraClassPath", jars)
        .config("spark.driver.extraJavaOptions", _OPTIONS)
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    where = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    read: DataFrame = spark.read.format("kafka").options(**where).load()
    digest = Digest()
    columns = read.selectExpr("partition", "offset", "cast(timestamp as double) as seconds", "key", "value")
    for row in columns.orderBy("partition", "offset").toLocalIterator():
        digest.add(row.offset, round(row.seconds * 1000), bytes(row.key), bytes(row.value))
    stream = spark.readStream.format("kafka").options(
        **where, startingOffsets="earliest", maxOffsetsPerTrigger="1000000"
    )
    writing = stream.load().select("key", "value").writeStream.format("kafka").trigger(availableNow=True)
    writing = writing.option("kafka.bootstrap.servers", bootstrap).option("topic", f"{topic}-copied")
    writing.option("checkpointLocation", folder).start().awaitTermination()
    spark.stop()
    print(digest.count, digest.result()["sha256"])


if __name__ == "__main__":
    main()
