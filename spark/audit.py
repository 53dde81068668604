"""The audit by Spark: the verdicts of ``logd audit`` on months of monitoring events.

The events are messages of topic ``_audit``: read from the brokers, or from where ``logd import`` has put them:

    logd import --topics _audit --to /data/audit
    python -m logd.spark.audit /data/audit --to /data/verdicts

Or they were judged already, day by day and on several clusters, and their verdicts are put together:

    logd audit --parquet /data/east
    python -m logd.spark.audit /data/east /data/west --to /data/verdicts
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame

from logd.audit.verdicts import DEFAULT_GRACE
from logd.audit.windows import DEFAULT_WIDTH
from logd.spark.driver.reconciling import reconcile
from logd.spark.driver.verdict_tables import combined, is_verdicts
from logd.spark.importer.session import open_session

__all__ = ["combined", "main", "reconcile"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the verdicts as Parquet; return 1 if messages are missing, else 0."""
    parser = argparse.ArgumentParser(prog="python -m logd.spark.audit", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "tables",
        nargs="+",
        metavar="table",
        help="the folder into which logd import has put topic _audit, or folders of logd audit --parquet",
    )
    parser.add_argument("--to", required=True, help="the folder for the verdicts, which does not exist yet")
    parser.add_argument("--window", type=float, default=DEFAULT_WIDTH / 1000, help="width of windows in seconds")
    parser.add_argument("--grace", type=float, default=DEFAULT_GRACE / 1000, help="seconds before a window is judged")
    options = parser.parse_args(arguments)
    session = open_session("logd audit", None, {})
    tables = [session.read.parquet(each) for each in options.tables]
    kinds = {is_verdicts(each) for each in tables}
    if len(kinds) > 1:
        parser.error("some of the folders have events, and some have verdicts: give folders of one kind")
    if kinds == {True}:
        found = combined(tables)
    else:
        events = reduce(DataFrame.unionByName, [each.where("topic = '_audit'").select("value") for each in tables])
        found = reconcile(events, width=round(options.window * 1000), grace=round(options.grace * 1000))
    found.write.parquet(options.to)
    counts = {row["state"]: row["count"] for row in session.read.parquet(options.to).groupBy("state").count().collect()}
    for state, count in sorted(counts.items()):
        print(f"{state}: {count}")
    return 1 if counts.get("missing") else 0


if __name__ == "__main__":
    sys.exit(main())
