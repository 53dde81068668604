"""The folder of a durable tree: the names of its files, and the lock that admits one process at a time.

::

    lock                          taken while the tree is served
    changes.<base, 16 hex>        changes behind the zxid ``base`` (change_file.py)
    snapshot.<zxid, 16 hex>       the whole tree as of ``zxid`` (snapshot_file.py)
    mark                          a zxid: all changes up to it are on the disk (logd/log/recovery/flush_mark.py)
    *.tmp                         left by an unfinished write; removed at the start
    *.damaged                     a damaged snapshot, or files from before a salvage, kept for a person
"""

from __future__ import annotations

import re

from logd.errors import DataDirectoryError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.names import join

LOCK = "lock"
DAMAGED_SUFFIX = ".damaged"
_NAME = re.compile(r"(changes|snapshot)\.([0-9a-f]{16})\Z")


def changes_name(base: int) -> str:
    """Return the name of the file with the changes behind ``base``."""
    return f"changes.{base:016x}"


def snapshot_name(zxid: int) -> str:
    """Return the name of the snapshot at ``zxid``."""
    return f"snapshot.{zxid:016x}"


def numbers_of(kind: str, names: list[str]) -> list[int]:
    """Return the zxids of all files of a kind (``changes`` or ``snapshot``) among ``names``, ascending."""
    matches = [_NAME.match(name) for name in names]
    return sorted(int(match[2], 16) for match in matches if match is not None and match[1] == kind)


def open_folder(files: IFileOperations, path: str) -> IFile:
    """Make the folder if it is missing (its parent must exist), and lock it until the returned file is closed.

    Raises DataDirectoryError when another process has locked it, or it cannot be used.
    """
    try:
        if not files.exists(path):
            files.make_directory(path)
        # Also if it existed: a process that was killed may have made it without the sync.
        files.sync_directory(path.rpartition("/")[0] or "/")
        return files.lock(join(path, LOCK))
    except BlockingIOError as error:
        raise DataDirectoryError(
            f"the coordination tree in {path} is in use by another process: "
            "stop that one, or give this one a directory of its own"
        ) from error
    except OSError as error:
        raise DataDirectoryError(f"the coordination tree's folder {path} cannot be used: {error}") from error
