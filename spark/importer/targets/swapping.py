"""Puts a merged run into the place of the runs that it was made of, in steps that the next command can finish.

::

    DIR/_compacted/             the merged run, verified; from its rename to this name on the old runs are to go
    DIR/run=0/...               the notice: it makes readers fail while the runs change places
    DIR/_merged/5-40/run=5..40  the old runs, hidden

1. ``_staging/<uuid>`` becomes ``_compacted``: the decision. Before it the next command undoes, after it finishes.
2. The notice appears, every old run moves to ``_merged``, ``_compacted`` becomes ``run=40``, the notice goes.
3. The old runs are removed.

No file system moves many folders at once. A reader that lists DIR during step 2 therefore has to fail, and does: the
folders of the notice do not fit those of the runs, and its file is no data. Before step 2 a reader sees all old runs,
after it the merged one.

Each step may be done by several processes at once, on file systems without locks: whoever finds a folder moved
already goes on. An old run is moved only while ``_merged/5-40`` exists, which is made before ``_compacted`` is looked
for once more; so nobody who comes late moves the merged run, which has the name of the last old one.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.folders import TargetFolders
from logd.spark.importer.targets.layout import (
    COMPACTED,
    MERGED,
    NOTICE,
    OFFSETS,
    QUARANTINE,
    STAGING,
    run_name,
    run_number,
)
from logd.spark.importer.targets.offsets import TYPED_FORMAT, RunOffsets
from logd.spark.importer.targets.target import Target

#: The notice's file, and what is in it.
_NOTICE_FILE = "compaction=under-way/{}.{}"
_NOTICE_TEXT = (
    b"Not data: logd import --compact is exchanging runs, which takes moments, or was killed while it did so.\n"
    b"Read again; if this stays, run logd import into this directory, or logd import --compact, which finishes it.\n"
)


def commit(target: Target, staged: str, merged: RunOffsets) -> None:
    """Put the verified run in ``_staging/<staged>`` into the place of the runs ``first_run`` to ``run``.

    Raises RunLost if another compaction was faster. After any error the next ``finish`` finishes, or undoes.
    """
    target.write_offsets(staged, merged.to_bytes())
    try:
        _folders(target).move(f"{STAGING}/{staged}", COMPACTED)
    except FileExistsError:
        raise RunLost(f"another compaction of {target.location} is running; this one left nothing behind") from None
    if finish(target) != merged.uuid:
        raise RunLost(f"another compaction of {target.location} was faster; this one left nothing behind")


def finish(target: Target) -> str | None:
    """Finish a compaction that was interrupted after its decision; return the merged run's uuid, None without one.

    Also removes what a finished one left. One that does not fit the runs is undone. Raises TargetError if its offsets
    are damaged.
    """
    folders = target.folders
    if folders is None:
        return None
    # In this order: what is listed here belongs to compactions that are finished, if there is none after it.
    noticed = NOTICE in folders.names("")
    remains = folders.names(MERGED)
    content = folders.read(f"{COMPACTED}/{OFFSETS}")
    if content is None:
        if noticed:
            folders.remove(NOTICE)
        for each in remains:
            _drop(target, each)
        return None
    merged = RunOffsets.from_bytes(content, f"{target.location}/{COMPACTED}/{OFFSETS}")
    former = f"{merged.first_run}-{merged.run}"
    if not folders.names(f"{MERGED}/{former}") and not _fits(target, merged):
        # In one step: a removal that is killed may leave data without offsets, in the way of every later compaction.
        with suppress(FileNotFoundError):  # another process has done so
            folders.move(COMPACTED, f"{STAGING}/{uuid.uuid4()}")
        return None
    folders.make(f"{MERGED}/{former}")
    if folders.read(f"{COMPACTED}/{OFFSETS}") is not None:
        _exchange(target, merged, former)
    folders.remove(NOTICE)
    _drop(target, former)
    return merged.uuid


def _fits(target: Target, merged: RunOffsets) -> bool:
    """Return True if the visible runs in the merged run's place are those that it was made of, and no others."""
    expected = merged.first_run
    for number in target.runs():
        if number < expected:
            continue
        content = target.read_offsets(number)
        if content is None:
            return False
        run = RunOffsets.from_bytes(content, f"{target.location}/{run_name(number)}/{OFFSETS}")
        if run.first_run != expected:
            return False
        if number == merged.run:
            return run.uuid == merged.uuid
        expected = number + 1
    return False


def put_notice(folders: TargetFolders, merged: RunOffsets) -> None:
    """Make readers of the whole table fail from now on; see the module.

    Typed values are read topic by topic, and their quarantine by itself (``run=*/topic=T``, ``run=*/_quarantine``): so
    the notice is in a folder for each of these, too.
    """
    places = [""]
    if merged.format == TYPED_FORMAT:
        topics = {each.lineage.topic for each in (*merged.loaded, *merged.backfilled)}
        places += [*(f"topic={topic}/" for topic in sorted(topics)), f"{QUARANTINE}/"]
    file = _NOTICE_FILE.format(merged.uuid, merged.data.get("format", "parquet"))
    for place in places:
        folders.put(f"{NOTICE}/{place}{file}", _NOTICE_TEXT)


def _exchange(target: Target, merged: RunOffsets, former: str) -> None:
    folders = _folders(target)
    put_notice(folders, merged)
    for number in target.runs():
        if merged.first_run <= number <= merged.run:
            with suppress(FileNotFoundError, FileExistsError):  # another process has moved it
                folders.move(run_name(number), f"{MERGED}/{former}/{run_name(number)}")
    try:
        folders.move(COMPACTED, run_name(merged.run))
    except FileNotFoundError:
        pass  # another process has moved it
    except FileExistsError:
        if folders.read(f"{COMPACTED}/{OFFSETS}") is not None:
            raise TargetError(
                f"{target.location}/{run_name(merged.run)} is in the place of the merged run in {COMPACTED}: "
                "move it away, and run the command again"
            ) from None


def _drop(target: Target, former: str) -> None:
    """Remove old runs, except what they have hidden beside their data: that moves into the merged run.

    Their quarantines are merged, as the data are. Where the merged run has none, they move like anything else.
    """
    folders = _folders(target)
    last = run_name(int(former.rpartition("-")[2]))
    merged = {OFFSETS, QUARANTINE} & set(folders.names(last))
    for run in folders.names(f"{MERGED}/{former}"):
        if run_number(run) is None:
            continue
        for name in folders.names(f"{MERGED}/{former}/{run}"):
            if name.startswith("_") and name not in merged | {OFFSETS}:
                if OFFSETS not in merged:
                    raise TargetError(f"{target.location}/{last} is missing, into which {MERGED}/{former} was merged")
                folders.make(f"{last}/{MERGED}/{run}")
                with suppress(FileNotFoundError, FileExistsError):  # another process has moved it
                    folders.move(f"{MERGED}/{former}/{run}/{name}", f"{last}/{MERGED}/{run}/{name}")
    folders.remove(f"{MERGED}/{former}")


def _folders(target: Target) -> TargetFolders:
    if target.folders is None:
        raise TargetError(f"{target.location} has no runs in folders")
    return target.folders
