"""The truncation of a partition's log, which a follower needs where its log and its leader's diverge.

    checkpoint := at most the position    1. nothing vouches any more for what will go: a start after a crash that finds
    mark := at most the position             less than something vouches for would take the partition for lost
    segments behind it removed, last first
    the segment that holds it cut         2. a crash here leaves more than is wanted, never a hole that recovery keeps
    fdatasync, fsync of the folder        3. before anything is appended: nothing of what was cut can come back
    recovery, as at a start               4. index, writer and times of the segment that is the last one now

After a crash between any two steps the log ends at the position or behind it, at an entry boundary, and the caller asks
again. Ids behind the position are given again, so only bytes that no reader has seen may be cut off, and the
coordination tree must not vouch for them either. A truncation below one of these ends is refused, unless a person has
given up what is lost.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve

from logd.errors import LogdError, OffsetOutOfRange, PartitionOffline
from logd.interfaces import IFileOperations, IThreads
from logd.log.disk.names import (
    MARK,
    PRODUCERS,
    TEMPORARY_SUFFIX,
    index_name,
    index_start,
    join,
    segment_name,
    segment_start,
)
from logd.log.disk.open_files import OpenFiles
from logd.log.index import lookup
from logd.log.offline_text import is_truncated, not_truncated
from logd.log.partition import PartitionLog
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from logd.log.recovery.flush_mark import encode_mark, read_mark
from logd.log.store.reopening import Reopener

#: A file in a partition's folder during its truncation; recovery removes it, as it does all temporary files.
UNFINISHED = f"truncation{TEMPORARY_SUFFIX}"


class TruncationRefused(LogdError):
    """A truncation was refused, and nothing was changed."""


def truncate_folder(files: IFileOperations, folder: str, checkpoint: Checkpoint, position: int) -> None:
    """Truncate a partition whose ``checkpoint`` would be this one, durably on return.

    The folder must not be in use, and recovery has to follow. Blocks; raises OSError.
    """
    # The first position may be inside an entry that goes.
    shorter = evolve(checkpoint, flushed=min(checkpoint.flushed, position), first=min(checkpoint.first, position))
    _vouch_for_no_more(files, folder, shorter, position)
    names = files.list(folder)
    starts = sorted(found for name in names if (found := segment_start(name)) is not None)
    indexes = {found for name in names if (found := index_start(name)) is not None}
    # Until all of this is durable, a start has to sync what it finds: after a kill and then a power loss, bytes could
    # reappear that the start did not see.
    unfinished = join(folder, UNFINISHED)
    if UNFINISHED not in names:
        files.open(unfinished, create=True).close()
    last = max((each for each in starts if each <= position), default=checkpoint.start)
    for each in reversed([each for each in starts if each > last]):
        files.remove(join(folder, segment_name(each)))
        if each in indexes:
            files.remove(join(folder, index_name(each)))
    path = join(folder, segment_name(last))
    modified = files.modified(path)
    file = files.open(path)
    try:
        file.require(position - last)
        file.truncate(position - last)
        file.sync_data()
    finally:
        file.close()
    files.set_modified(path, modified)
    files.remove(unfinished)
    files.sync_directory(folder)


def _vouch_for_no_more(files: IFileOperations, folder: str, checkpoint: Checkpoint, position: int) -> None:
    """Write the checkpoint and the mark durably, even if they read as wanted: older ones may be on the disk.

    What producers have sent is forgotten: it may be among what is cut off.
    """
    if files.exists(join(folder, PRODUCERS)):
        files.remove(join(folder, PRODUCERS))
    try:
        found = read_checkpoint(files, folder)
    except ValueError:
        found = checkpoint
    if found is not None or checkpoint != Checkpoint(0, 0):
        write_checkpoint(files, folder, checkpoint)
    if files.exists(join(folder, MARK)):
        mark = min(read_mark(files, folder), position)
        file = files.open(join(folder, MARK))
        try:
            file.write_at(0, encode_mark(mark))
            file.sync_data()
        finally:
            file.close()


@define(eq=False)
class Truncator:
    """Truncates logs on threads. Owner thread only."""

    _files: IFileOperations
    _threads: IThreads
    _open_files: OpenFiles
    _reopener: Reopener

    def truncate(
        self,
        log: PartitionLog,
        position: int,
        known_end: int,
        done: Callable[[BaseException | None], None],
        *,
        given_up: bool = False,
    ) -> None:
        """See LogStore.truncate."""
        error = _refusal(log, position, known_end, given_up)
        if error is not None or position == log.end:
            done(error)
            return

        def checked(boundary: int | None, error: BaseException | None) -> None:
            # Retention, readers or an error may have intervened.
            error = error or _refusal(log, position, known_end, given_up)
            if error is None and boundary != position:
                error = TruncationRefused(f"{log.folder} is not truncated to {position}: that is inside an entry")
            if error is not None:
                done(error)
            else:
                self._cut(log, position, known_end, done)

        snapshot = log.snapshot(log.end)
        self._threads.run(lambda: lookup.find_boundary(snapshot, position), checked)

    def _cut(
        self, log: PartitionLog, position: int, known_end: int, done: Callable[[BaseException | None], None]
    ) -> None:
        checkpoint = Checkpoint(log.start, log.flushed_end, log.first)
        log.go_offline(is_truncated(log.folder, position), reported=False)
        for each in log.segment_list.starts:
            if each >= position:  # another segment may begin there later
                self._open_files.forget(join(log.folder, segment_name(each)))

        def prepare() -> bool:
            truncate_folder(self._files, log.folder, checkpoint, position)
            return True

        def reopened(error: BaseException | None) -> None:
            if error is not None:
                log.stay_offline(not_truncated(log.folder, position, error))
            done(error)

        self._reopener.reopen(log, prepare, known_end, reopened)


def _refusal(log: PartitionLog, position: int, known_end: int, given_up: bool) -> LogdError | None:
    """Return the error for a log that may not be truncated to a position, None if it may be."""
    if log.offline is not None:
        return PartitionOffline(f"{log.topic}-{log.partition} is offline: {log.offline}")
    if not log.start <= position <= log.end:
        return OffsetOutOfRange(f"{log.folder}: position {position} is not between {log.start} and {log.end}")
    shown = 0 if given_up else log.visible_end
    for end, why in ((shown, "readers have seen it"), (known_end, "the coordination tree vouches for it")):
        if position < end:
            return TruncationRefused(
                f"{log.folder} is not truncated to {position}, so that no id is given twice: {why} up to {end}"
            )
    return None
