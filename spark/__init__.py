"""Topics in Apache Spark, imported as ``logd.spark``: the data source and sink ``logd``, and their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("logd")`` known to the session; see logd.spark.registration."""
    # Not at the top: executors and planners import parts of this package that do not need pyspark.
    from logd.spark.registration import register as register_source

    register_source(spark)
