"""Tables of verdicts that ``logd audit --parquet`` has written, put together: of months, and of several clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns that name a row, and the others.
KEY = ("topic", "window", "width", "cluster", "tier", "group", "source")
_COUNTS = ("expected", "seen", "missing", "duplicated", "unaccounted")


def is_verdicts(table: DataFrame) -> bool:
    """Return whether a table has verdicts, and not events."""
    return {*KEY, *_COUNTS, "state"} <= set(table.columns)


def combined(tables: Sequence[DataFrame]) -> DataFrame:
    """Return one table of the verdicts of all, with the columns of ``reconcile``: ``window`` is in ms.

    Of several rows about one window and stage, as runs on both sides of a mirror write them, that from the most events
    stays: the one with the largest counts, and of equal ones one that is not pending any more.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    selected = []
    for table in tables:
        window = f.col("window") if dict(table.dtypes)["window"] == "bigint" else f.unix_millis("window")
        selected.append(table.withColumn("window", window).select(*KEY, *_COUNTS, "state"))
    everything = reduce(lambda one, other: one.unionByName(other), selected)
    settled = (f.col("state") != "pending").cast("int")
    order = [f.col("expected").desc(), f.col("seen").desc(), settled.desc(), f.col("unaccounted"), f.col("state")]
    ranked = everything.withColumn("_rank", f.row_number().over(Window.partitionBy(*KEY).orderBy(*order)))
    return ranked.where("_rank = 1").drop("_rank")
