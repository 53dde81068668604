"""Runs in the history of an Iceberg table: the snapshots that logd import has committed, and their summaries."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING

from logd.spark.importer.errors import TargetError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

#: Keys in the summary of a snapshot. The property of the table has the name of the last one too.
RUN = "logd-run"
UUID = "logd-uuid"
OFFSETS = "logd-offsets"

#: A key of the table's property: the place of the run's snapshot in the order of commits.
SEQUENCE_NUMBER = "sequence-number"

#: Offsets above this length are compressed: each version of a table's metadata has the summaries of all its snapshots.
_LONG = 4096
_COMPRESSED = "zlib:"


def runs_of(table: Table) -> dict[int, str]:
    """Return the packed offsets of the runs among the current snapshot and its ancestors, by number."""
    snapshots = lineage(table)
    summaries = [summary_of(each) for each in snapshots]
    if snapshots and not any(RUN in each for each in summaries):
        last = json.loads(table.properties.get(OFFSETS, "{}"))
        # Its snapshot has expired, unless the table was rolled back to a snapshot that is older.
        if _sequence_number(snapshots[0]) > int(last.get(SEQUENCE_NUMBER, 0)) or not _sequence_number(snapshots[0]):
            summaries = [last]
    return {int(each[RUN]): each[OFFSETS] for each in summaries if RUN in each and OFFSETS in each}


def _sequence_number(snapshot: Snapshot) -> int:
    """Return the place of a snapshot in the order of commits; 0 in tables of Iceberg's first format, which has none."""
    return snapshot.sequence_number or 0


def lineage(table: Table) -> list[Snapshot]:
    """Return the current snapshot and its ancestors, the newest first, up to one that has expired."""
    found = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return found


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """Return a snapshot's summary, Iceberg's own counts among it."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}


def packed(content: bytes) -> str:
    """Return offsets, as in ``_offsets.json``, as a value of a summary."""
    text = json.dumps(json.loads(content), separators=(",", ":"))
    if len(text) <= _LONG:
        return text
    return _COMPRESSED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str, where: str) -> bytes:
    """Return the offsets of ``packed``. Raises TargetError that names ``where`` if they are damaged."""
    if not text.startswith(_COMPRESSED):
        return text.encode()
    try:
        return zlib.decompress(base64.b64decode(text.removeprefix(_COMPRESSED)))
    except (ValueError, zlib.error) as error:
        raise TargetError(f"{where}: {OFFSETS} in the snapshot's summary is damaged: {error}") from None
