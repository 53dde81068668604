"""A process with a streaming query in small batches, to be killed: ``python -m ... BROKER TOPIC OUTPUT CHECKPOINT``."""

from __future__ import annotations

import sys

from logd.spark.session import local_session


def main(broker: str, topic: str, output: str, checkpoint: str) -> None:
    """Run until all is read."""
    spark = local_session("to be killed", quick=True)
    frame = (
        spark.readStream.format("logd")
        .option("brokers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxBytesPerTrigger", "5000")
        .load()
    )
    query = (
        frame.selectExpr("cast(value as string) as value", "topic", "partition", "offset")
        .writeStream.format("json")
        .option("path", output)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
