"""Writes snapshots on a thread and removes obsolete files: two snapshots and the changes behind them stay.

The older of the two replaces a damaged newer one. A snapshot begins only once every change in it is on the disk, and
nothing older is removed before the snapshot is durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from logd.coord.server.storage.folder import changes_name, numbers_of, snapshot_name
from logd.coord.server.storage.snapshot_file import encode_snapshot
from logd.interfaces import IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, join

#: Bytes gathered for one write.
_WRITE_BYTES = 1 << 20
#: Snapshots kept.
KEPT = 2


def write_snapshot(files: IFileOperations, folder: str, zxid: int, pieces: Iterable[bytes]) -> None:
    """Write the snapshot at ``zxid``, then remove older files. Blocks; raises OSError, and then older files stay."""
    target = join(folder, snapshot_name(zxid))
    if files.exists(target):
        return
    temporary = target + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        buffers: list[bytes] = []
        count = 0
        for each in encode_snapshot(zxid, pieces):
            buffers.append(each)
            count += len(each)
            if count >= _WRITE_BYTES:
                file.append([b"".join(buffers)])
                buffers, count = [], 0
        file.append([b"".join(buffers)])
        file.sync_data()
        file.close()
        files.rename(temporary, target)
    except BaseException:
        file.close()
        _remove_quietly(files, temporary)
        raise
    files.sync_directory(folder)
    remove_needless(files, folder)


def remove_needless(files: IFileOperations, folder: str) -> None:
    """Remove all snapshots except the newest two, and files of changes that end at or before the older of these.

    Raises OSError. Files that a crash brings back are removed the next time.
    """
    names = files.list(folder)
    snapshots = numbers_of("snapshot", names)
    if len(snapshots) < KEPT:
        return
    oldest = snapshots[-KEPT]
    bases = numbers_of("changes", names)
    for zxid in snapshots[:-KEPT]:
        files.remove(join(folder, snapshot_name(zxid)))
    # Each file ends where the next begins. Oldest first: a crash in between leaves no hole.
    for base, following in pairwise(bases):
        if following <= oldest:
            files.remove(join(folder, changes_name(base)))


def _remove_quietly(files: IFileOperations, path: str) -> None:
    try:
        files.remove(path)
    except OSError:
        return
