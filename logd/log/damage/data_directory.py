"""The contents of a data directory, or of a part of one, read from outside without its lock."""

from __future__ import annotations

from attrs import define, field

from logd.errors import DataDirectoryError
from logd.interfaces import IFileOperations
from logd.log.damage.inspection import MissingSegments, Remark, SegmentPlace, read_places
from logd.log.disk.names import (
    CHECKPOINT,
    DELETED_SUFFIX,
    EPOCHS,
    EPOCHS_COPY,
    META,
    NO_PARTITIONS,
    TEMPORARY_SUFFIX,
    TOPICS,
    folder_name,
    folder_partition,
    is_beginning_name,
    is_lost_name,
    join,
    segment_start,
)
from logd.log.store.meta import Meta
from logd.log.store.topics_file import TopicsFile

_META_LIMIT = 4096


@define
class Contents:
    """The segments and other files in a path."""

    #: The data directory (the one with ``meta``) that the path belongs to, None if there is none.
    data_directory: str | None = None
    segments: list[SegmentPlace] = field(factory=list)
    missing: list[MissingSegments] = field(factory=list)
    remarks: list[Remark] = field(factory=list)
    partitions: int = 0


def read_contents(files: IFileOperations, path: str) -> Contents:
    """Return the contents of ``path`` (absolute): a data directory, a partition's folder or one segment.

    Raises OSError, and DataDirectoryError for any other path.
    """
    if not files.is_directory(path):
        return _segment(files, path)
    names = files.list(path)
    if META in names or TOPICS in names:
        return _directory(files, path, names)
    if CHECKPOINT in names or any(segment_start(name) is not None for name in names):
        found = Contents(_parent_directory(files, path))
        _add_partition(files, path, found)
        return found
    if any(folder_partition(name) for name in names):
        return _directory(files, path, names)
    raise DataDirectoryError(f"{path} is not a data directory, a partition's folder or a segment of logd")


def is_replica(files: IFileOperations, folder: str) -> bool:
    """Return whether a partition's folder is that of one replica of several: only those have leader epochs."""
    names = files.list(folder)
    return EPOCHS in names or EPOCHS_COPY in names


def _parent_directory(files: IFileOperations, folder: str) -> str | None:
    parent = folder.rpartition("/")[0]
    return parent if files.exists(join(parent, META)) else None


def _segment(files: IFileOperations, path: str) -> Contents:
    folder, _, name = path.rpartition("/")
    start = segment_start(name)
    files.size(path)  # raises for a file that does not exist
    if start is None:
        raise DataDirectoryError(f"{path} does not have a segment's name, which is 20 digits and .log")
    places = read_places(files, folder)
    found = Contents(_parent_directory(files, folder), partitions=1)
    found.segments = [place for place in places.segments if place.start == start]
    if not found.segments:
        raise DataDirectoryError(f"{path} no longer belongs to its log: retention has removed it from the log")
    return found


def _add_partition(files: IFileOperations, folder: str, found: Contents) -> None:
    try:
        places = read_places(files, folder)
    except FileNotFoundError:
        return  # deleted just now
    found.partitions += 1
    found.segments += places.segments
    found.missing += [places.missing] if places.missing is not None else []
    found.remarks += places.remarks


def _directory(files: IFileOperations, path: str, names: list[str]) -> Contents:
    found = Contents(path if META in names else None)
    broker_id = _check_meta(files, path, found)
    folders = set()
    for name in names:
        where = join(path, name)
        if name in NO_PARTITIONS:
            continue
        is_folder = files.is_directory(where)
        if is_folder and folder_partition(name) is not None:
            folders.add(name)
            _add_partition(files, where, found)
        elif is_lost_name(name):
            found.remarks.append(Remark(where, "is the rest of a log whose loss was accepted; nothing reads it", False))
        elif is_beginning_name(name):
            found.remarks.append(
                Remark(where, "is an unfinished new beginning of a log; the next start removes it", False)
            )
        elif name.endswith(DELETED_SUFFIX):
            found.remarks.append(Remark(where, "belongs to a deleted topic; the next start removes it", False))
        elif name.endswith(TEMPORARY_SUFFIX):
            text = "is from an unfinished write, or from one in progress"
            found.remarks.append(Remark(where, text, False))
        else:
            found.remarks.append(Remark(where, "does not belong to logd", False))
    _check_topics(files, path, broker_id, folders, found)
    return found


def _check_meta(files: IFileOperations, path: str, found: Contents) -> int | None:
    """Return the id of the broker that the directory belongs to, None if it is not known."""
    where = join(path, META)
    if found.data_directory is None:
        found.remarks.append(Remark(where, "is missing: no broker can start in this directory", True))
        return None
    file = files.open_for_reading(where)
    try:
        return Meta.decode(file.read_at(0, _META_LIMIT)).broker_id
    except (ValueError, DataDirectoryError) as error:
        found.remarks.append(Remark(where, f"is damaged: {error}", True))
        return None
    finally:
        file.close()


def _check_topics(files: IFileOperations, path: str, broker_id: int | None, folders: set[str], found: Contents) -> None:
    """Compare topics.json with the folders. A partition that only other brokers store has no folder here."""
    where = join(path, TOPICS)
    file = TopicsFile(files, path)
    try:
        topics = file.read()
    except DataDirectoryError as error:
        found.remarks.append(Remark(where, str(error).partition(" is ")[2] or str(error), True))
        return
    if file.damage:
        text = f"is damaged ({file.damage}): the broker reads the lost records from the coordination tree"
        found.remarks.append(Remark(where, text, True))
        return
    if not files.exists(where):
        return
    stored = {
        folder_name(topic, number): brokers
        for topic, entry in topics.items()
        for number, brokers in entry.partitions.items()
    }
    expected = {name for name, brokers in stored.items() if broker_id is None or broker_id in brokers}
    for name in sorted(folders - set(stored)):
        # A broker makes the logs of a new topic before it writes topics.json, so this topic may be a new one.
        found.remarks.append(Remark(join(path, name), "belongs to no topic in topics.json", False))
    for name in sorted(expected - folders):
        if files.is_directory(join(path, name)):
            continue  # made since the names were read, with a new topic
        text = (
            "is missing, although topics.json has it: put it back (is its disk mounted?), or start the broker and "
            "accept the loss with `logd repair --broker`"
        )
        found.remarks.append(Remark(join(path, name), text, True))
