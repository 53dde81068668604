"""A process that does what a Spark task does, without Spark: ``python -m logd.bench.spark.reader_alone BROKER TOPIC``.

Prints rows a second as JSON, or with ``profile`` as third argument a profile of its time.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time

from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.range_planning import plan_ranges
from logd.spark.blocking.ranges import IdRange
from logd.spark.worker.options import ReadOptions, read_options
from logd.spark.worker.tasks import read_batches


def read(options: ReadOptions, ranges: list[IdRange]) -> int:
    """Make all record batches; return the number of rows."""
    return sum(batch.num_rows for each in ranges for batch in read_batches(options, each))


def main(broker: str, topic: str, profile: str = "") -> None:
    """Read the whole topic."""
    options = read_options({"brokers": broker, "subscribe": topic}, streaming=False)
    with BlockingCluster(ClusterSettings(brokers=broker)) as cluster:
        ranges = plan_ranges(cluster, options.subscription, options.starting, options.ending, True)
    if profile:
        with cProfile.Profile() as profiler:
            read(options, ranges)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(15)
        return
    begin = time.perf_counter()
    rows = read(options, ranges)
    print(json.dumps({"rows": rows, "rows_per_second": rows / (time.perf_counter() - begin)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
