"""Counts the status codes of a web log per minute, live, from a topic, with Spark's Structured Streaming.

Cells begin with ``# %%``, as notebooks and editors know them; as a script it runs until Ctrl-C. To try it, beside a
broker (``twistd -n logd --data /tmp/logd``) and a web server that writes the Common Log Format:

    logd collect /var/log/nginx/access.log --topic access &
    python examples/status_codes.py                      # needs pyspark and pyarrow

LOGD_BROKER and LOGD_TOPIC name another broker and topic (default: 127.0.0.1:6667 and access), LOGD_SECONDS ends it
after so many seconds. Positions are kept in LOGD_CHECKPOINT: started again with the same, it goes on where it was.
"""

# %% A session of this machine, with format("logd") registered.
from __future__ import annotations

import os
import tempfile

from pyspark.sql import functions as f

from logd.spark.session import local_session

BROKER = os.environ.get("LOGD_BROKER", "127.0.0.1:6667")
TOPIC = os.environ.get("LOGD_TOPIC", "access")
SECONDS = int(os.environ["LOGD_SECONDS"]) if "LOGD_SECONDS" in os.environ else None
CHECKPOINT = os.environ.get("LOGD_CHECKPOINT") or os.path.join(tempfile.mkdtemp(), "checkpoint")

spark = local_session("status codes", settings={"spark.sql.shuffle.partitions": "2"})

# %% The topic as an endless table: each row is a message, whose value is a line of the log.
lines = (
    spark.readStream.format("logd")
    .option("brokers", BROKER)
    .option("subscribe", TOPIC)
    .option("startingOffsets", "earliest")
    .load()
    .select(f.col("value").cast("string").alias("line"))
)

# %% Common Log Format: the time stands in brackets, the status is the number behind the quoted request.
requests = lines.select(
    f.try_to_timestamp(f.regexp_extract("line", r"\[([^\]]+)\]", 1), f.lit("dd/MMM/yyyy:HH:mm:ss Z")).alias("time"),
    f.regexp_extract("line", r'" (\d{3}) ', 1).alias("status"),
).where("time IS NOT NULL AND status <> ''")

# %% Requests of one minute and status; minutes that are ten minutes old are done with, and forgotten.
counts = (
    requests.withWatermark("time", "10 minutes")
    .groupBy(f.window("time", "1 minute").start.alias("minute"), "status")
    .count()
)

# %% Print what changed, every few seconds.
query = (
    counts.writeStream.outputMode("update")
    .foreachBatch(lambda batch, number: batch.orderBy("minute", "status").show(50, truncate=False))
    .option("checkpointLocation", CHECKPOINT)
    .trigger(processingTime="5 seconds")
    .start()
)
try:
    query.awaitTermination(SECONDS)
except KeyboardInterrupt:
    print("stopped")
finally:
    query.stop()
    spark.stop()
