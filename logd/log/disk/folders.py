"""Creation and removal of folders in the data directory. The next start can handle a crash at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logd.errors import DataDirectoryError
from logd.interfaces import IFileOperations
from logd.log.disk.names import (
    CHECKPOINT,
    MARK,
    TEMPORARY_SUFFIX,
    TOPICS,
    is_beginning_name,
    is_deleted_name,
    join,
    segment_start,
)


def make_folder(files: IFileOperations, path: str) -> None:
    """Make the data directory and its missing parents, durably. Raises DataDirectoryError."""
    missing = []
    above = path
    try:
        while above and not files.exists(above):
            missing.append(above)
            above = above.rpartition("/")[0]
        for folder in reversed(missing):
            files.make_directory(folder)
            files.sync_directory(folder.rpartition("/")[0] or "/")
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} cannot be created: {error}") from error


def remove_leftovers(files: IFileOperations, path: str, report: Callable[..., None]) -> None:
    """Remove the leftovers of deletions, of logs begun again and of a replacement of topics.json after a crash."""
    names = files.list(path)
    if TOPICS + TEMPORARY_SUFFIX in names:
        files.remove(join(path, TOPICS + TEMPORARY_SUFFIX))
    leftovers = [name for name in names if is_deleted_name(name) or is_beginning_name(name)]
    if leftovers:
        # A broker that was killed may not have synced these names, and such a folder must not reappear under its old
        # one.
        files.sync_directory(path)
    for name in leftovers:
        try:
            remove_folder(files, join(path, name))
        except OSError as error:
            report(
                "the folder of a deleted partition cannot be removed: {error}; the next start tries again", error=error
            )


def remove_partitions(
    files: IFileOperations, path: str, folders: Iterable[str], new_name: Callable[[], str], report: Callable[..., None]
) -> None:
    """Remove folders; a crash leaves each of them complete, or under a name that marks it as deleted."""
    leaving = []
    for folder in folders:
        if files.exists(folder):  # a partition whose log was lost has none
            leaving.append(join(path, new_name()))
            files.rename(folder, leaving[-1])
    files.sync_directory(path)
    for folder in leaving:
        try:
            remove_folder(files, folder)
        except OSError as error:
            report("{folder} cannot be removed: {error}; the next start tries again", folder=folder, error=error)


def remove_folder(files: IFileOperations, path: str) -> None:
    """Remove a folder and the files in it. Raises OSError."""
    for name in files.list(path):
        files.remove(join(path, name))
    files.remove_directory(path)


def may_be_directory(files: IFileOperations, path: str) -> bool:
    """Return whether a path is a directory, also true on an error: only that partition then fails to start."""
    try:
        return files.is_directory(path)
    except OSError:
        return True


def may_hold_log(files: IFileOperations, folder: str) -> bool:
    """Return whether a partition's folder contains any file of a log, also true if it cannot be read."""
    try:
        return any(name in (CHECKPOINT, MARK) or segment_start(name) is not None for name in files.list(folder))
    except OSError:
        return True
