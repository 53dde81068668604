"""The creation of folders for new logs, on any thread, before the owner thread makes logs of them."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from logd.errors import StorageFull, UnknownError, WireError
from logd.interfaces import IFileOperations
from logd.log.disk.errors import NO_ROOM
from logd.log.disk.folders import remove_folder
from logd.log.disk.names import folder_name, join
from logd.log.writer import SegmentWriter, create_segment

#: Partitions with the writers of their new segments, None for a folder that existed already.
LogFolders = Generator[tuple[int, SegmentWriter | None], None, None]


def make_log_folder(files: IFileOperations, folder: str, now: float) -> SegmentWriter | None:
    """Make a log's folder with an empty segment, whose file is closed; return None if the folder exists already.

    ``now`` is in seconds since the epoch. Blocks; raises StorageFull, and UnknownError, which may be temporary.
    """
    try:
        if files.exists(folder):
            return None
        files.make_directory(folder)
        try:
            writer = create_segment(files, folder, 0, now)
        except OSError:
            remove_folder(files, folder)  # otherwise the next start would find a partition there
            raise
    except OSError as error:
        raise not_made(folder, error) from error
    writer.close()  # thousands of folders may be made before the first one is used
    return writer


def make_log_folders(
    files: IFileOperations, path: str, topic: str, partitions: Iterable[int], now: float
) -> LogFolders:
    """Make folders for partitions in the data directory ``path``, one with each step; see make_log_folder."""
    for partition in partitions:
        yield partition, make_log_folder(files, join(path, folder_name(topic, partition)), now)


def not_made(folder: str, error: OSError) -> WireError:
    """Return the error for a folder that could not be created."""
    failure = StorageFull if error.errno in NO_ROOM else UnknownError
    return failure(f"cannot create {folder}: {error}")
