"""The Spark session of a command: on this machine, or on the cluster of spark-submit or ``--master``."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from logd.spark.importer.settings import is_local
from logd.spark.registration import register
from logd.spark.session import local_session, prepare_environment

#: All cores, and four attempts at a task: without the second number a local master never tries again.
LOCAL_MASTER = "local[*,4]"

#: Bytes of log up to which a session that starts sooner and runs slower ends first: light compilation by Java
#: saves about 7 s of processor time at the start and costs 4.5 s for each million messages of 200 bytes.
LITTLE = 256 << 20

#: Settings that an import needs in every session.
NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    # Files of several hours are open at once; otherwise Spark sorts all rows of a task by their folder first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Instead of INT96, which Parquet has deprecated: it has no minimum and maximum for skipping files, and readers that
    # convert it to nanoseconds corrupt times after the year 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def open_session(name: str, master: str | None, settings: Mapping[str, str], size: int | None = None) -> SparkSession:
    """Return a session with the data source registered. ``settings`` are Spark settings, which take precedence.

    ``size`` is the number of bytes of log to read, if known: for few bytes the session starts sooner and runs slower.

    Raises NoJava if this machine has no Java, and the errors of Spark.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return _open_session(name, master, settings, size)
    finally:
        # pyspark's own handler calls Java while an answer from Java is being read, which fails with tracebacks.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)


def _open_session(name: str, master: str | None, settings: Mapping[str, str], size: int | None) -> SparkSession:
    # Errors of a query are raised as exceptions, and need not be logged too.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has started the Java
    if is_local(master) and not submitted:
        quick = size is not None and size <= LITTLE
        with _quiet_child():
            return local_session(name, master or LOCAL_MASTER, settings={**NEEDED, **settings}, quick=quick)
    if not submitted:
        prepare_environment()
        # The driver's Java starts a Python to plan ranges, by default python3, which may lack logd.
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
    """Hide the remarks of a JVM that is started inside, and show them if it fails to start.

    Its remarks at a start (on modules, logging, native libraries) do not help the command's user, and later errors are
    raised as exceptions. If the block is left by an exception, such as an interruption, the JVM is ended: otherwise a
    starting JVM would wait for this process for ever.
    """
    before = _children()
    with tempfile.TemporaryFile() as remarks:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(remarks.fileno(), 2)
        try:
            yield
        except BaseException as error:
            for child in _children() - before:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
            os.dup2(kept, 2)
            if isinstance(error, Exception):
                remarks.seek(0)
                sys.stderr.write(remarks.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _children() -> set[int]:
    """Return the ids of the child processes of this one; none if the system does not tell."""
    found: set[int] = set()
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            found.update(map(int, (thread / "children").read_text(encoding="ascii").split()))
    return found
