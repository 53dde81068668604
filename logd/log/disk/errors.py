"""Errors of the operating system that do not mean a broken disk: no room, and shortages that pass."""

from __future__ import annotations

import errno

from logd.errors import StorageFull, UnknownError

#: A full disk, a quota, and a file that may not become larger: it may go on when some room was made.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Too many open files, too little memory: the same call may succeed a moment later.
PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


def append_refusal(folder: str, error: OSError) -> StorageFull | UnknownError | None:
    """Return the error for a producer whose set was not appended and may be sent again, None for a broken disk."""
    if error.errno in NO_ROOM:
        return StorageFull(f"no room for an append to {folder}: {error}")
    if error.errno in PASSING:
        return UnknownError(f"cannot append to {folder} now: {error}")
    return None
