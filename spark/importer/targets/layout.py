"""Names in the target of an import.

::

    DIR/run=1/_offsets.json                         what the run loaded, and how far DIR has come with it
    DIR/run=1/topic=T/date=2011-11-11/hour=06/*     the data
    DIR/run=2/...
    DIR/_staging/<uuid>/                            a run in the making: becomes run=N by one rename
    DIR/_lock                                       held by the import that is at work (on a local file system)

Readers pass over names that begin with an underscore: Spark, Hive and pyarrow do so by themselves.
"""

from __future__ import annotations

import re

STAGING = "_staging"
LOCK = "_lock"
OFFSETS = "_offsets.json"

_RUN = re.compile(r"run=([1-9][0-9]{0,17})\Z")


def run_name(number: int) -> str:
    """The name of a run's folder; runs are numbered from 1."""
    return f"run={number:d}"


def run_number(name: str) -> int | None:
    """The number in a run's name, None where it is no run's."""
    match = _RUN.match(name)
    return int(match[1]) if match else None
