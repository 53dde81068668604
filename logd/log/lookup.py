"""Finding entries by offset and by time, with the index where there is one and by a scan where there is none.

Everything here may wait for the disk and runs on any thread, on a snapshot, while the owner goes on appending.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from logd.errors import CorruptMessage, OffsetOutOfRange, UnknownError
from logd.interfaces import IFileOperations
from logd.log.index import ActiveIndex
from logd.log.indexfile import Boundary, WrongIndex
from logd.log.indexsearch import Split, last_boundary, split_index
from logd.log.names import TEMPORARY_SUFFIX, index_name, join, segment_name
from logd.log.scan import read_heads, scan_entries
from logd.log.segments import SegmentList


@frozen
class Snapshot:
    """A partition as it was at one moment."""

    files: IFileOperations
    folder: str
    start: int
    visible_end: int
    segments: SegmentList
    index: ActiveIndex
    index_bytes: int

    def split(self, number: int, holds: Callable[[Boundary], bool]) -> Split:
        """Search the index of segment ``number`` as split_index does; make it again when it is missing or wrong."""
        start = self.segments.starts[number]
        path = join(self.folder, index_name(start))
        if start == self.index.start:
            tail = self.index.tail  # before ``chunks``: see ActiveIndex
            try:
                return split_index(self.files, path, start, holds, tail, self.index.chunks)
            except (WrongIndex, OSError):
                return None, None
        try:
            # One that does not sum its segment up was torn by a crash: what is missing at its end would be missed.
            if last_boundary(self.files, path, start).position == self.segments.starts[number + 1]:
                return split_index(self.files, path, start, holds)
        except (WrongIndex, OSError):
            pass
        try:
            self.rebuild_index(number)
            return split_index(self.files, path, start, holds)
        except (WrongIndex, OSError):
            return None, None  # a full disk, or another thread is at it: then the whole segment is searched

    def rebuild_index(self, number: int) -> None:
        """Make a closed segment's index again by a scan; the segment's time stands in for those of the appends."""
        start = self.segments.starts[number]
        modified_ms = int(self.segments.segments[number].modified * 1000)
        end = self.segments.starts[number + 1]
        path = join(self.folder, index_name(start))
        temporary = path + TEMPORARY_SUFFIX
        index = ActiveIndex(self.files, temporary, start)
        self.files.open(temporary, create=True).close()  # fails when another thread is making it
        try:
            file = self.files.open_for_reading(join(self.folder, segment_name(start)))
            try:
                scan = scan_entries(file, 0, end - start, self.index_bytes)
            finally:
                file.close()
            for position, highest_ms in scan.boundaries:
                index.note(start + position, modified_ms, highest_ms)
            index.finish(start + scan.end, modified_ms, scan.highest_ms)
            if not index.broken:
                self.files.rename(temporary, path)
                temporary = ""
        finally:
            if temporary:  # left where it is, it would look like another thread's until the next start
                self.files.remove(temporary)


def find_boundary(log: Snapshot, offset: int) -> int:
    """Return the start of the entry that contains ``offset``; for the visible end, itself.

    Raises OffsetOutOfRange, CorruptMessage when lengths on the way make no sense, OSError.
    """
    if not log.start <= offset <= log.visible_end:
        raise OffsetOutOfRange(f"offset {offset} is not between {log.start} and {log.visible_end}")
    if offset == log.visible_end:
        return offset
    number = log.segments.find(offset)
    start = log.segments.starts[number]
    before, _ = log.split(number, lambda boundary: boundary.position <= offset)
    position = before.position if before else start
    if position == offset:
        return offset
    end = min(log.segments.end_of(number, log.visible_end), log.visible_end)
    try:
        file = log.files.open_for_reading(join(log.folder, segment_name(start)))
    except FileNotFoundError as error:
        # If retention has removed it just now the next request finds the log's new start.
        raise UnknownError(f"cannot look for offset {offset}: {error}") from error
    try:
        for head in read_heads(file, position - start, end - start):
            position = start + head.position
            if position + head.size > offset:
                return position
    finally:
        file.close()
    raise CorruptMessage("a length makes no sense", position)


def position_at_time(log: Snapshot, time_ms: int) -> int:
    """Return the position of the first entry at or after a time (ms since the epoch), the visible end if there is none.

    An entry's time is its timestamp, or where it has none the time when it was appended, as exactly as the index
    knows that: up to ``index_bytes`` of earlier entries may come too, never fewer than asked for. Raises OSError.
    """
    for number, start in enumerate(log.segments.starts):
        end = min(log.segments.end_of(number, log.visible_end), log.visible_end)
        if end <= max(start, log.start) or _is_before(log, number, time_ms):
            continue
        # Where both the append times and the timestamps so far are before the time, all entries before are.
        first, _ = log.split(number, lambda b: b.append_ms < time_ms and b.highest_ms < time_ms)
        late_position = _late_position(log, number, time_ms, end)
        position = max(first.position if first else start, log.start)
        try:
            file = log.files.open_for_reading(join(log.folder, segment_name(start)))
        except FileNotFoundError as error:
            raise UnknownError(f"cannot look for time {time_ms}: {error}") from error
        try:
            for head in read_heads(file, position - start, end - start):
                if head.timestamp >= time_ms or (head.timestamp < 0 and start + head.position >= late_position):
                    return start + head.position
        finally:
            file.close()
    return log.visible_end


def _late_position(log: Snapshot, number: int, time_ms: int, end: int) -> int:
    """Return the position from which on entries of a segment may have been appended at or after the time."""
    if log.segments.segments[number].modified * 1000 < time_ms:
        return end
    # What lies between two boundaries was appended at some time between theirs, so all but the first of it may be late.
    before, _ = log.split(number, lambda boundary: boundary.append_ms < time_ms)
    return before.position + 1 if before else log.segments.starts[number]


def _is_before(log: Snapshot, number: int, time_ms: int) -> bool:
    """Whether a closed segment is known to hold nothing at or after the time."""
    start = log.segments.starts[number]
    if start == log.index.start or log.segments.segments[number].modified * 1000 >= time_ms:
        return False
    try:
        last = last_boundary(log.files, join(log.folder, index_name(start)), start)
    except (WrongIndex, OSError):
        return False
    return last.position == log.segments.starts[number + 1] and last.highest_ms < time_ms
