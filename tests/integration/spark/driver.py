"""A driver whose executors have only pyarrow: logd is shipped to them. Prints its results as JSON, for a test.

Arguments: broker, the zip that is shipped, the topic with plain messages, one with compressed ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logd.spark import register

#: Options of a JVM that starts sooner and runs slower.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


def main() -> None:
    """Read and write topics, and print the results."""
    broker, shipped, plain, compressed = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local-cluster[1,1,1024]")
        .config("spark.submit.pyFiles", shipped)
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "1")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    register(spark)

    def read(topic: str, **options: str) -> Any:
        return spark.read.format("logd").options(brokers=broker, subscribe=topic, **options).load()

    def said(work: Callable[[], object]) -> str:
        try:
            return str(work())
        except (Py4JError, PySparkException) as error:
            return str(error)

    found = {
        "read": said(read(plain).count),
        "written": said(
            lambda: (
                read(plain)
                .select("value")
                .write.format("logd")
                .option("brokers", broker)
                .mode("append")
                .option("topic", plain)
                .save()
            )
        ),
        "again": said(read(plain).count),
        "compressed": said(read(compressed).collect),
        "avro": said(lambda: read(plain, avroSchema=AVRO)),
    }
    print(json.dumps(found))
    spark.stop()


main()
