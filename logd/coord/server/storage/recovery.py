"""Recovers a durable tree's folder when it is opened: the newest valid snapshot, and the changes behind it.

A tail torn by a crash is cut. If an acknowledged change is missing, in the middle or at the end, recovery fails with an
error that names the file and the remedy; it is never skipped silently. Later records and the mark tell which changes
were acknowledged. The mark is written after each sync (change_file.py, logd/log/recovery/flush_mark.py).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.coord.server.storage.change_file import ChangeFileHead, ChangeFileScan, scan
from logd.coord.server.storage.folder import DAMAGED_SUFFIX, changes_name, numbers_of, snapshot_name
from logd.coord.server.storage.snapshot_file import decode_snapshot
from logd.errors import DataDirectoryError
from logd.interfaces import IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, join
from logd.log.recovery.flush_mark import read_mark

#: Called with a message for the operator: a format and its fields, as for Twisted's logger.
Report = Callable[..., None]


@define
class RecoveredTree:
    """The result of a recovery; everything in it is on the disk."""

    #: The newest valid snapshot's zxid and pieces; 0 and none without a snapshot.
    snapshot_zxid: int = 0
    pieces: list[bytes] = field(factory=list)
    #: The changes behind the snapshot.
    changes: list[tuple[int, bytes]] = field(factory=list)
    #: The last change of all.
    last: int = 0
    #: The head of the file to continue, None for a new one.
    head: ChangeFileHead | None = None
    #: Bytes of changes behind the snapshot.
    change_bytes: int = 0


def recover(files: IFileOperations, folder: str, report: Report) -> RecoveredTree:
    """Read the folder, which this process has locked; cut a torn tail and make the rest durable.

    Raises DataDirectoryError for what is damaged, and OSError.
    """
    for name in files.list(folder):
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove(join(folder, name))
    found = _newest_snapshot(files, folder, report)
    found.last = found.snapshot_zxid
    flushed = read_mark(files, folder)
    bases = _relevant(numbers_of("changes", files.list(folder)), found.snapshot_zxid)
    if bases and bases[0] > found.snapshot_zxid:
        raise _damage(folder, f"there is no snapshot at or behind {changes_name(bases[0])}, and no changes before it")
    for position, base in enumerate(bases):
        is_last = position == len(bases) - 1
        if position and base != found.last:
            raise _damage(folder, f"{changes_name(base)} does not follow change {found.last:#x}: files are missing")
        flushed = max(flushed, _read_changes(files, folder, base, is_last, flushed, found, report))
    if found.last < flushed:
        raise _damage(
            folder,
            f"its changes end with {found.last:#x}, but all up to {flushed:#x} were on the disk: "
            f"{changes_name(bases[-1]) if bases else 'every file of changes'} is damaged or missing",
        )
    files.sync_directory(folder)
    return found


def _newest_snapshot(files: IFileOperations, folder: str, report: Report) -> RecoveredTree:
    """Return the newest valid snapshot. A damaged one is set aside if an older one with its changes replaces it."""
    unsound: list[str] = []
    problem = ""
    for zxid in reversed(numbers_of("snapshot", files.list(folder))):
        name = snapshot_name(zxid)
        try:
            read_zxid, pieces = decode_snapshot(_read(files, join(folder, name)))
            if read_zxid != zxid:
                raise ValueError(f"its head says {read_zxid:#x}")
        except ValueError as error:
            problem = problem or f"{name} is damaged: {error}"
            unsound.append(name)
            continue
        break
    else:
        zxid, pieces = 0, []
    bases = numbers_of("changes", files.list(folder))
    if unsound and not any(base <= zxid for base in bases):
        raise _damage(folder, problem)
    for name in unsound:
        report("{folder}: {name} is damaged; an older snapshot is used instead", folder=folder, name=name)
        files.rename(join(folder, name), join(folder, name + DAMAGED_SUFFIX))
    return RecoveredTree(zxid, pieces)


def _relevant(bases: list[int], snapshot_zxid: int) -> list[int]:
    """Return the files that may have changes behind the snapshot: from the last one that begins at or before it."""
    before = [base for base in bases if base <= snapshot_zxid]
    return bases[max(len(before) - 1, 0) :]


def _read_changes(
    files: IFileOperations,
    folder: str,
    base: int,
    is_last: bool,
    flushed: int,
    found: RecoveredTree,
    report: Report,
) -> int:
    """Read one file into ``found``; return the zxid up to which its records say that everything was on the disk."""
    name = changes_name(base)
    path = join(folder, name)
    data = _read(files, path)

    def keep(zxid: int, change: bytes) -> None:
        if zxid > found.snapshot_zxid:
            found.changes.append((zxid, change))
            found.last = zxid

    try:
        result = scan(data, keep, found.snapshot_zxid)
    except ValueError as error:
        raise DataDirectoryError(f"{path}: {error}") from error
    if result.passed_over:
        report(
            "{path}: {count} damaged bytes are skipped; the snapshot contains their changes",
            path=path,
            count=result.passed_over,
        )
    if result.head is not None and result.head.base != base:
        raise _damage(folder, f"the head of {name} says {result.head.base:#x}")
    if result.end < len(data) and (not is_last or max(flushed, result.flushed) > max(found.last, result.last)):
        raise _damage(
            folder,
            f"{name} is damaged at byte {result.end}, in an acknowledged change",
        )
    if is_last:
        _settle(files, path, data, result, found, report)
    found.change_bytes += result.end
    return result.flushed


def _settle(
    files: IFileOperations, path: str, data: bytes, result: ChangeFileScan, found: RecoveredTree, report: Report
) -> None:
    """Cut the incomplete record left by a crash, and sync what was read, so that it survives the next crash."""
    if result.head is None:
        # A crash while the file was created: it holds nothing acknowledged, for its head is synced first.
        files.remove(path)
        return
    if result.last == found.last:
        found.head = result.head
    file = files.open(path)
    try:
        if result.end < len(data):
            report(
                "{path}: {count} bytes behind the last whole change are cut; they were never acknowledged",
                path=path,
                count=len(data) - result.end,
            )
            file.truncate(result.end)
        file.sync_data()
    finally:
        file.close()


def _read(files: IFileOperations, path: str) -> bytes:
    file = files.open_for_reading(path)
    try:
        # After a failed sync the cache may hold data that the disk never got.
        file.drop_cache()
        return file.read_at(0, file.size())
    finally:
        file.close()


def _damage(folder: str, text: str) -> DataDirectoryError:
    return DataDirectoryError(
        f"the coordination tree in {folder}: {text}. Put back a copy of the folder; or let "
        f"`logd zookeeper --data {folder} --salvage` show what is lost, and go on without that"
    )
