"""Finding entries by offset and by time, with the index where there is one and by a scan where there is none.

Everything here may wait for the disk and runs on any thread, on a snapshot, while the owner goes on appending.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from attrs import frozen

from logd.errors import CorruptMessage, OffsetOutOfRange, UnknownError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, index_name, join, segment_name
from logd.log.index.index import ActiveIndex
from logd.log.index.index_file import Boundary, WrongIndex
from logd.log.index.index_search import IndexSearch, Split, last_boundary
from logd.log.scan import read_heads, scan_entries
from logd.log.segments import SegmentList


@frozen
class Snapshot:
    """A partition as it was at one moment."""

    files: IFileOperations
    folder: str
    start: int
    #: Up to where to look: the visible end for readers.
    end: int
    segments: SegmentList
    index: ActiveIndex
    index_bytes: int

    def split(self, number: int, holds: Callable[[Boundary], bool]) -> Split:
        """Search the index of segment ``number`` once; see SegmentIndex."""
        with closing(SegmentIndex(self, number)) as index:
            return index.split(holds)

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
                file.require(end - start)  # of a segment that was cut meanwhile the index is another
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


class SegmentIndex:
    """The index of one segment of a snapshot, to be asked often; made again where it is missing or wrong."""

    def __init__(self, log: Snapshot, number: int) -> None:
        self._log = log
        self._number = number
        self._rebuilt = False
        self._search: IndexSearch | None = None

    def split(self, holds: Callable[[Boundary], bool]) -> Split:
        """Search as IndexSearch does; (None, None) where there is no index, and the whole segment is to be searched."""
        try:
            return self._open().split(holds)
        except (WrongIndex, OSError):
            self.close()
        log, number = self._log, self._number
        if log.segments.starts[number] == log.index.start or self._rebuilt:
            return None, None
        self._rebuilt = True
        try:
            log.rebuild_index(number)
            return self._open().split(holds)
        except (WrongIndex, OSError):
            self.close()
            return None, None  # a full disk, or another thread is at it

    def close(self) -> None:
        """Close the file."""
        search, self._search = self._search, None
        if search is not None:
            search.close()

    def _open(self) -> IndexSearch:
        if self._search is None:
            log, number = self._log, self._number
            start = log.segments.starts[number]
            path = join(log.folder, index_name(start))
            if start == log.index.start:
                tail = log.index.tail  # before ``chunks``: see ActiveIndex
                self._search = IndexSearch(log.files, path, start, tail, log.index.chunks)
            else:
                self._search = IndexSearch(log.files, path, start)
                # One that does not sum its segment up was torn by a crash: what is missing at its end would be missed.
                if self._search.last().position != log.segments.starts[number + 1]:
                    raise WrongIndex("it does not reach its segment's end")
        return self._search


def find_boundary(log: Snapshot, offset: int) -> int:
    """Return the start of the entry that contains ``offset``; for the end, itself.

    Raises OffsetOutOfRange, CorruptMessage when lengths on the way make no sense, OSError.
    """
    with closing(find_boundaries(log, [offset])) as found:
        return next(found)[1]


def find_boundaries(log: Snapshot, offsets: Iterable[int]) -> Generator[tuple[int, int], None, None]:
    """Yield each offset once, in ascending order, with the start of the entry that contains it.

    Every offset is a step that may wait for the disk. Each segment, and its index, is opened once and read forwards, so
    that no byte is read for two offsets. Close the generator when it is not needed to its end. Raises as find_boundary.
    """
    ascending = sorted(set(offsets))
    at = 0
    while at < len(ascending):
        offset = ascending[at]
        if not log.start <= offset <= log.end:
            raise OffsetOutOfRange(f"offset {offset} is not between {log.start} and {log.end}")
        if offset == log.end:
            yield offset, offset
            at += 1
            continue
        number = log.segments.find(offset)
        stop = bisect_left(ascending, min(log.segments.end_of(number, log.end), log.end), at)
        with closing(_in_segment(log, number, ascending[at:stop])) as found:
            yield from found
        at = stop


def _in_segment(log: Snapshot, number: int, ascending: Sequence[int]) -> Generator[tuple[int, int], None, None]:
    """Yield as find_boundaries does; all offsets are in segment ``number``."""
    start = log.segments.starts[number]
    end = min(log.segments.end_of(number, log.end), log.end)
    path = join(log.folder, segment_name(start))
    found, after = start, start  # the last entry that was found
    file: IFile | None = None
    with closing(SegmentIndex(log, number)) as index:
        try:
            for offset in ascending:
                if offset >= after:
                    before, _ = index.split(lambda boundary: boundary.position <= offset)  # noqa: B023  # called here
                    begin = max(before.position, after) if before else after
                    if begin == offset and before and before.position == offset:
                        found, after = offset, offset
                    else:
                        file = file or _open_segment(log, path, offset)
                        found, after = _entry_at(file, start, begin, offset, end)
                yield offset, found
        finally:
            if file is not None:
                file.close()


def _open_segment(log: Snapshot, path: str, offset: int) -> IFile:
    try:
        return log.files.open_for_reading(path)
    except FileNotFoundError as error:
        # If retention has removed it just now the next request finds the log's new start.
        raise UnknownError(f"cannot look for offset {offset}: {error}") from error


def _entry_at(file: IFile, start: int, begin: int, offset: int, end: int) -> tuple[int, int]:
    """Return where the entry that contains ``offset`` begins and ends; one begins at ``begin``."""
    position = begin
    for at, size, _ in read_heads(file, begin - start, end - start, offset - start):
        position = start + at
        if position + size > offset:
            return position, position + size
    raise CorruptMessage("a length makes no sense", position)


def position_at_time(log: Snapshot, time_ms: int) -> int:
    """Return the position of the first entry at or after a time (ms since the epoch), the end if there is none.

    An entry's time is its timestamp, or where it has none the time when it was appended, as exactly as the index
    knows that: up to ``index_bytes`` of earlier entries may come too, never fewer than asked for. Raises OSError.
    """
    for number, start in enumerate(log.segments.starts):
        end = min(log.segments.end_of(number, log.end), log.end)
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
            for at, _, time in read_heads(file, position - start, end - start):
                if time >= time_ms or (time < 0 and start + at >= late_position):
                    return start + at
        finally:
            file.close()
    return log.end


def _late_position(log: Snapshot, number: int, time_ms: int, end: int) -> int:
    """Return the position from which on entries of a segment may have been appended at or after the time."""
    if log.segments.segments[number].modified * 1000 < time_ms:
        return end
    # What lies between two boundaries was appended at some time between theirs, so all but the first of it may be late.
    before, _ = log.split(number, lambda boundary: boundary.append_ms < time_ms)
    return before.position + 1 if before else log.segments.starts[number]


def _is_before(log: Snapshot, number: int, time_ms: int) -> bool:
    """Return whether a closed segment is known to hold nothing at or after the time."""
    start = log.segments.starts[number]
    if start == log.index.start or log.segments.segments[number].modified * 1000 >= time_ms:
        return False
    try:
        last = last_boundary(log.files, join(log.folder, index_name(start)), start)
    except (WrongIndex, OSError):
        return False
    return last.position == log.segments.starts[number + 1] and last.highest_ms < time_ms
