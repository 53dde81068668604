"""The Spark session of an import: one of this machine, or the cluster's that spark-submit or ``--master`` names."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from logd.spark.registration import register
from logd.spark.session import local_session

#: All cores, and four attempts at a task: without the second number a local master never tries again.
LOCAL_MASTER = "local[*,4]"

#: What an import relies on, whoever starts the session.
_NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    # Files of several hours are written side by side; else Spark sorts all rows of a task by their folder first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}


def open_session(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """Return a session with the data source registered. ``settings`` are further ones of Spark's, and win.

    Raises NoJava where there is no Java on this machine.
    """
    name = "logd import"
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # set by spark-submit, which has started the JVM
    if not submitted and (master is None or master.startswith("local")):
        return local_session(name, master or LOCAL_MASTER, settings={**_NEEDED, **settings})
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_NEEDED, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def is_local(master: str | None) -> bool:
    """Whether the session's executors run on this machine and see its file system."""
    return master.startswith("local") if master is not None else "PYSPARK_GATEWAY_PORT" not in os.environ
