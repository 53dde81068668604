"""Registers ``format("logd")`` in a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from logd.spark.driver.source import LogdDataSource


def register(spark: SparkSession) -> None:
    """Let ``spark.read``, ``readStream``, ``write`` and ``writeStream`` of this session use ``format("logd")``.

    The executors' Python must be able to import ``logd``.
    """
    spark.dataSource.register(LogdDataSource)
