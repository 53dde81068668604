"""Atomic replacement of a small file: after a power loss it has the old content or the new."""

from __future__ import annotations

from logd.interfaces import IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, join


def replace_file(files: IFileOperations, folder: str, name: str, content: bytes) -> None:
    """Replace the content of ``folder/name``, durably on return.

    The content must be on the disk before the rename, and the rename before any code relies on it, so there are two
    syncs. Raises OSError; the file then has its old content, or the new one if the second sync has failed. One call at
    a time for each name.
    """
    target = join(folder, name)
    temporary = target + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.append([content])
        file.sync_data()
    finally:
        file.close()
    files.rename(temporary, target)
    files.sync_directory(folder)


def read_file(files: IFileOperations, path: str, limit: int) -> bytes | None:
    """Return the first ``limit`` bytes of a small file, None if there is no such file. Raises OSError."""
    if not files.exists(path):
        return None
    file = files.open_for_reading(path)
    try:
        return file.read_at(0, limit)
    finally:
        file.close()
