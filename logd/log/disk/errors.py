"""Operating system errors that do not mean a broken disk: a full disk, and temporary shortages."""

from __future__ import annotations

import errno

from logd.errors import StorageFull, UnknownError

#: A full disk, an exceeded quota, and a file at its size limit: appends may succeed again once space was freed.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Too many open files or too little memory: the same call may succeed a moment later.
PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
#: Too many open files, which no sync reports: nothing was tried on the disk.
_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def is_too_many_files(error: BaseException | None) -> bool:
    """Return whether a file or folder could not be opened because this process, or the system, has too many open."""
    return isinstance(error, OSError) and error.errno in _TOO_MANY_FILES


def is_shortage(error: BaseException | None) -> bool:
    """Return whether room, open files or memory were short: the same call may succeed later, and the disk is sound."""
    return isinstance(error, OSError) and error.errno in NO_ROOM | PASSING


def append_refusal(folder: str, error: OSError) -> StorageFull | UnknownError | None:
    """Return the retriable error for a producer whose set was not appended, None for a broken disk."""
    if error.errno in NO_ROOM:
        return StorageFull(f"no room for an append to {folder}: {error}")
    if error.errno in PASSING:
        return UnknownError(f"cannot append to {folder} now: {error}")
    return None
