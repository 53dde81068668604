"""The interface of an import's target, and the step that makes a run visible."""

from __future__ import annotations

from typing import Protocol

from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.chain import check_run, check_successor
from logd.spark.importer.targets.folders import TargetFolders, TargetNotes
from logd.spark.importer.targets.layout import COMPACTED, NOTICE, OFFSETS, run_name
from logd.spark.importer.targets.offsets import RunOffsets


class Target(Protocol):
    """A directory on some file system. Every method may raise OSError or TargetError, and blocks."""

    @property
    def location(self) -> str:
        """The directory, as named to Spark and to people."""
        ...

    @property
    def folders(self) -> TargetFolders | None:
        """The folders in the directory, for compactions. None for a table, whose runs are no folders."""
        ...

    @property
    def notes(self) -> TargetNotes:
        """Small files beside the runs, which readers do not see; of a directory or table that ``acquire`` has made."""
        ...

    def runs(self) -> list[int]:
        """Return the numbers of the visible runs, ascending."""
        ...

    def read_offsets(self, run: int) -> bytes | None:
        """Return the content of a run's ``_offsets.json``, None if there is none."""
        ...

    def acquire(self) -> None:
        """Create the directory and, if the file system has locks, keep other imports out until ``close``.

        Raises RunLost if another import is running.
        """
        ...

    def clean(self) -> list[str]:
        """Remove the staged runs of dead imports, never those of a live one; return their names."""
        ...

    def staging(self, uuid: str) -> str:
        """Return the staging folder of the run ``uuid``, which does not exist yet, on the target's file system."""
        ...

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """Put ``_offsets.json`` into the staged run."""
        ...

    def rename(self, uuid: str, run: int) -> None:
        """Make the staged run visible by one atomic rename; on return it survives a loss of power.

        Raises FileExistsError if that run exists already; then nothing is changed. After any other error the run may be
        visible or not.
        """
        ...

    def discard(self, uuid: str) -> None:
        """Remove the staged run, if there is one."""
        ...

    def close(self) -> None:
        """Release the target for other imports. Harmless if done twice."""
        ...


def read_run(target: Target, run: int) -> RunOffsets:
    """Return a visible run's offsets. Raises TargetError if they are missing, damaged, or those of another run."""
    where = f"{target.location}/{run_name(run)}"
    content = target.read_offsets(run)
    if content is None:
        raise TargetError(f"{where} has no {OFFSETS}: logd import has not written it; move it away")
    offsets = RunOffsets.from_bytes(content, f"{where}/{OFFSETS}")
    if offsets.run != run:
        raise TargetError(f"{where}/{OFFSETS} is that of {run_name(offsets.run)}: it was moved here; move it back")
    return offsets


def last_run(target: Target) -> RunOffsets | None:
    """Return the last visible run, None before the first, checked against itself and the run before it.

    Raises TargetError if it is damaged, or does not begin where the run before it ended.
    """
    runs = target.runs()
    if not runs:
        return None
    last = read_run(target, runs[-1])
    check_run(last)
    if len(runs) > 1:
        if runs[-2] != last.first_run - 1:
            check_not_compacting(target)
            missing = f"{target.location}/{run_name(last.first_run - 1)}"
            raise TargetError(f"{missing} is missing, although {run_name(runs[-1])} exists")
        check_successor(read_run(target, runs[-2]), last)
    return last


def check_not_compacting(target: Target) -> None:
    """Raise RunLost while a compaction exchanges runs, or after one was killed while it did so."""
    folders = target.folders
    if folders is None:
        return
    if folders.names(NOTICE) or folders.read(f"{COMPACTED}/{OFFSETS}") is not None:
        raise RunLost(
            f"a compaction of {target.location} is exchanging runs at this moment, or was killed while it did so: "
            "try again, and if this stays, run logd import or logd import --compact, which finishes it"
        )


def publish(target: Target, offsets: RunOffsets) -> None:
    """Make a staged run visible, with its data, offsets and counts, all at once.

    After a failed rename the uuid of the visible run decides: if it is this run's, only the answer was lost. Raises
    RunLost if another import has made the run, and the error of the rename if there is no such run.
    """
    target.write_offsets(offsets.uuid, offsets.to_bytes())
    try:
        target.rename(offsets.uuid, offsets.run)
    except Exception as error:
        content = target.read_offsets(offsets.run)
        if content is None:
            raise
        made = RunOffsets.from_bytes(content, f"{target.location}/{run_name(offsets.run)}/{OFFSETS}")
        if made.uuid != offsets.uuid:
            raise RunLost(
                f"another import made {target.location}/{run_name(offsets.run)} first (its uuid is {made.uuid}); "
                "this one left nothing behind"
            ) from error
