"""The new beginning of a lost log, at a position far above every id that was ever given.

    <topic>-<partition>.<position>.beginning    the new folder while it is made; removed at a start
    <topic>-<partition>.<position>.lost         the rest of the old log; nothing reads or removes it

The new folder is complete and durable before it takes the old one's name. So a crash leaves the old log, no log, or the
new one. In the first two cases the partition is as lost as before, and the same call can be repeated.
"""

from __future__ import annotations

from logd.errors import UnknownError
from logd.interfaces import IFileOperations
from logd.log.disk.folders import remove_folder
from logd.log.disk.names import BEGINNING_SUFFIX, LOST_SUFFIX
from logd.log.recovery.checkpoint import Checkpoint, write_checkpoint
from logd.log.writer import create_segment

#: A log that begins again starts at a multiple of this many bytes, so that positions of the former log are plainly out
#: of range.
JUMP = 1 << 40
#: The least distance to the highest known end: a log may grow by this much before its end is stored again.
LEAST_JUMP = 1 << 39


def beginning_after(end: int) -> int:
    """Return the new start of a log whose highest known end is ``end``: a multiple of JUMP.

    Raises UnknownError if no position is left, which only a file name or number that is not logd's can cause.
    """
    position = -(-(end + LEAST_JUMP) // JUMP) * JUMP
    if position >= 1 << 63:
        raise UnknownError(
            f"no log can begin behind {end}, since positions end at 2^63. No log of logd grows that long: look for a "
            "file in the partition's folder whose name is such a number, and move it away"
        )
    return position


def begin_folder_again(files: IFileOperations, folder: str, position: int, now: float) -> None:
    """Replace a partition's log, if it is there, by an empty one that begins at ``position``; set the old one aside.

    Durable on return. ``now`` is in seconds since the epoch. The folder must not be in use. Blocks. Raises OSError;
    then the old log or none is there, and the call can be repeated.
    """
    parent = folder.rpartition("/")[0]
    beginning = f"{folder}.{position}{BEGINNING_SUFFIX}"
    if files.exists(beginning):
        remove_folder(files, beginning)
    files.make_directory(beginning)
    writer = create_segment(files, beginning, position, now)
    writer.close()
    write_checkpoint(files, beginning, Checkpoint(position, position))  # syncs the names, too
    if files.exists(folder):
        former = _free_name(files, f"{folder}.{position}")
        files.rename(folder, former)
        files.sync_directory(parent)
    files.rename(beginning, folder)
    files.sync_directory(parent)


def _free_name(files: IFileOperations, stem: str) -> str:
    """Return a free name for the old folder. The first choice is taken only if a crash was followed by another loss."""
    name, number = stem + LOST_SUFFIX, 1
    while files.exists(name):
        number += 1
        name = f"{stem}.{number}{LOST_SUFFIX}"
    return name
