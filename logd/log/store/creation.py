"""The folders of new logs: made on any thread, before the owner thread has logs for them."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from logd.errors import StorageFull, UnknownError, WireError
from logd.interfaces import IFileOperations
from logd.log.disk.errors import NO_ROOM
from logd.log.disk.folders import remove_folder
from logd.log.disk.names import folder_name, join
from logd.log.writer import SegmentWriter, create_segment

#: Partitions with their new segments, None for one whose folder is there already.
LogFolders = Generator[tuple[int, SegmentWriter | None], None, None]


def make_log_folder(files: IFileOperations, folder: str, now: float) -> SegmentWriter | None:
    """Make a log's folder with an empty segment, whose file is closed; None where the folder is there already.

    ``now`` in seconds since the epoch. Blocks; raises StorageFull, UnknownError (it may pass).
    """
    try:
        if files.exists(folder):
            return None
        files.make_directory(folder)
        try:
            writer = create_segment(files, folder, 0, now)
        except OSError:
            remove_folder(files, folder)  # the next start would take it for a topic
            raise
    except OSError as error:
        raise not_made(folder, error) from error
    writer.close()  # thousands may be made before the first is used
    return writer


def make_log_folders(
    files: IFileOperations, path: str, topic: str, partitions: Iterable[int], now: float
) -> LogFolders:
    """Make the folders of some partitions in the data directory ``path``, one in each step; see make_log_folder."""
    for partition in partitions:
        yield partition, make_log_folder(files, join(path, folder_name(topic, partition)), now)


def not_made(folder: str, error: OSError) -> WireError:
    """The error for a log that the disk does not take."""
    failure = StorageFull if error.errno in NO_ROOM else UnknownError
    return failure(f"cannot make {folder}: {error}")
