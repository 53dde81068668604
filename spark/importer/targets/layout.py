"""Names in the target of an import.

::

    DIR/run=1/_offsets.json                         the loaded ranges, and the positions that DIR has reached
    DIR/run=1/topic=T/date=2011-11-11/hour=06/*     the data
    DIR/run=1/_quarantine/*                         messages that cannot be decoded, of an import with a schema registry
    DIR/run=2/...
    DIR/_staging/<uuid>/                            an unfinished run, which becomes run=N by one rename
    DIR/_audit/<uuid>                               the counts of a run that are not published yet, of an audited import
    DIR/_compacted/, DIR/_merged/, DIR/run=0/       a compaction that exchanges runs (swapping.py)
    DIR/_lock                                       held by the running import (on a local file system)

Readers skip names that begin with an underscore: Spark, Hive and pyarrow do so by themselves.
"""

from __future__ import annotations

import re

STAGING = "_staging"
LOCK = "_lock"
OFFSETS = "_offsets.json"
QUARANTINE = "_quarantine"
AUDIT = "_audit"
#: The merged run of a compaction that was decided upon, and has not taken its place yet.
COMPACTED = "_compacted"
#: The folder, in the form of a run's, that makes readers fail while a compaction exchanges runs.
NOTICE = "run=0"
#: Old runs that a compaction has exchanged; also, inside a merged run, what they had hidden beside their data.
MERGED = "_merged"

_RUN = re.compile(r"run=([1-9][0-9]{0,17})\Z")


def run_name(number: int) -> str:
    """Return the name of a run's folder; runs are numbered from 1."""
    return f"run={number:d}"


def run_number(name: str) -> int | None:
    """Return the number of the run with this folder, None for any other name."""
    match = _RUN.match(name)
    return int(match[1]) if match else None
