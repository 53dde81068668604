"""The Spark session of a command: one of this machine, or the cluster's that spark-submit or ``--master`` names."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from logd.spark.importer.settings import is_local
from logd.spark.registration import register
from logd.spark.session import local_session, prepare_environment

#: All cores, and four attempts at a task: without the second number a local master never tries again.
LOCAL_MASTER = "local[*,4]"

#: Bytes of log up to which a session that begins sooner and runs slower has ended first: light compilation by Java
#: saves about 7 s of processor time at the start and costs 4.5 s for each million messages of 200 bytes.
LITTLE = 256 << 20

#: What an import relies on, whoever starts the session.
NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    # Files of several hours are written side by side; else Spark sorts all rows of a task by their folder first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # In place of INT96, which Parquet has given up: it has no least and greatest to skip files by, and readers that
    # make nanoseconds of it turn times behind the year 2262 into others.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def open_session(name: str, master: str | None, settings: Mapping[str, str], size: int | None = None) -> SparkSession:
    """Return a session with the data source registered. ``settings`` are further ones of Spark's, and win.

    ``size`` is how many bytes of log will be read, where that is known: for little it begins sooner and runs slower.

    Raises NoJava where there is no Java on this machine, and what Spark raises.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return _open_session(name, master, settings, size)
    finally:
        # pyspark's own handler asks Java in the midst of an answer from Java, which fails with tracebacks.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)


def _open_session(name: str, master: str | None, settings: Mapping[str, str], size: int | None) -> SparkSession:
    # What is wrong with a query comes as an exception, and need not be logged beside it.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has started the Java
    if is_local(master) and not submitted:
        quick = size is not None and size <= LITTLE
        with _quiet_child():
            return local_session(name, master or LOCAL_MASTER, settings={**NEEDED, **settings}, quick=quick)
    if not submitted:
        prepare_environment()
        # Ranges are planned by a Python that the driver's Java starts, by default python3, whatever that has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**NEEDED, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


@contextmanager
def _quiet_child() -> Iterator[None]:
    """Have a JVM that is started inside write its remarks on a file that nobody sees; show them if it fails to start.

    What it says of itself at a start (of its modules, its logging, native libraries) is no news for the command's user,
    and what goes wrong later comes as an exception.
    """
    with tempfile.TemporaryFile() as remarks:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(remarks.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            remarks.seek(0)
            sys.stderr.write(remarks.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
