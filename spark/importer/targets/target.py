"""The target of an import as its parts see it, and the one decision that makes a run visible or lost."""

from __future__ import annotations

from typing import Protocol

from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.chain import check_run, check_successor
from logd.spark.importer.targets.layout import OFFSETS, run_name
from logd.spark.importer.targets.offsets import RunOffsets


class Target(Protocol):
    """A directory on some file system. Every method may raise OSError or TargetError, and blocks."""

    @property
    def location(self) -> str:
        """The directory, as Spark and people name it."""
        ...

    def runs(self) -> list[int]:
        """The numbers of the runs that are visible, ascending."""
        ...

    def read_offsets(self, run: int) -> bytes | None:
        """The content of a run's ``_offsets.json``, None where there is none."""
        ...

    def acquire(self) -> None:
        """Make the directory and, where the file system can, keep other imports out until ``close``.

        Raises RunLost when another import is at work.
        """
        ...

    def clean(self) -> list[str]:
        """Remove what dead imports left in the staging folder, never that of a live one; return what went."""
        ...

    def staging(self, uuid: str) -> str:
        """Return the folder for the run ``uuid``, which does not exist yet, on the target's file system."""
        ...

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """Put ``_offsets.json`` into the staged run."""
        ...

    def rename(self, uuid: str, run: int) -> None:
        """Make the staged run visible by one atomic rename; on return it survives a loss of power.

        Raises FileExistsError where that run is there already, and nothing is changed then. After another error the
        run may have become visible or not.
        """
        ...

    def discard(self, uuid: str) -> None:
        """Remove the staged run, if there is one."""
        ...

    def close(self) -> None:
        """Release the target for other imports. Harmless if done twice."""
        ...


def read_run(target: Target, run: int) -> RunOffsets:
    """One visible run's offsets. Raises TargetError when they are missing, damaged or another run's."""
    where = f"{target.location}/{run_name(run)}"
    content = target.read_offsets(run)
    if content is None:
        raise TargetError(f"{where} has no {OFFSETS}: it was not made by logd import; move it away")
    offsets = RunOffsets.from_bytes(content, f"{where}/{OFFSETS}")
    if offsets.run != run:
        raise TargetError(f"{where}/{OFFSETS} is that of {run_name(offsets.run)}: it was moved here; move it back")
    return offsets


def last_run(target: Target) -> RunOffsets | None:
    """The last visible run, None before the first; checked against itself and the run before it.

    Raises TargetError when it is damaged, or does not go on where the one before it ended.
    """
    runs = target.runs()
    if not runs:
        return None
    last = read_run(target, runs[-1])
    check_run(last)
    if len(runs) > 1:
        if runs[-2] != runs[-1] - 1:
            raise TargetError(f"{target.location}/{run_name(runs[-1] - 1)} is missing: {run_name(runs[-1])} is there")
        check_successor(read_run(target, runs[-2]), last)
    return last


def publish(target: Target, offsets: RunOffsets) -> None:
    """Make a staged run visible, with its data, offsets and counts, all at once.

    Whatever the rename answered, who made the run that is there then decides: if it is our own, the answer was lost.
    Raises RunLost where another import has made it, and what the rename raised where nobody has.
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
