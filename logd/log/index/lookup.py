"""The search for entries by position and by time, with the index if there is one and by a scan if not.

All functions block on the disk. They run on any thread, on a snapshot, while the owner thread goes on appending.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from typing import NamedTuple

from attrs import frozen

from logd.errors import CorruptMessage, OffsetOutOfRange, UnknownError, WireError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, index_name, join, segment_name
from logd.log.index.index import ActiveIndex
from logd.log.index.index_file import Boundary, WrongIndex
from logd.log.index.index_search import IndexSearch, Split, last_boundary
from logd.log.scan import read_heads, scan_entries
from logd.log.segments import SegmentList

#: An error of the search for a position: the position is out of range, or damage or the disk is in the way.
SearchError = WireError | CorruptMessage | OSError


@frozen
class Snapshot:
    """A partition as it was at one moment."""

    files: IFileOperations
    folder: str
    start: int
    #: The end of the range to search: mostly the visible end.
    end: int
    segments: SegmentList
    index: ActiveIndex
    index_bytes: int

    def split(self, number: int, holds: Callable[[Boundary], bool]) -> Split:
        """Search the index of segment ``number`` one time; see SegmentIndex."""
        with closing(SegmentIndex(self, number)) as index:
            return index.split(holds)

    def rebuild_index(self, number: int) -> None:
        """Rebuild a closed segment's index by a scan; the segment's modification time replaces the append times."""
        start = self.segments.starts[number]
        modified_ms = int(self.segments.segments[number].modified * 1000)
        end = self.segments.starts[number + 1]
        path = join(self.folder, index_name(start))
        temporary = path + TEMPORARY_SUFFIX
        index = ActiveIndex(self.files, temporary, start)
        self.files.open(temporary, create=True).close()  # fails while another thread rebuilds it
        try:
            file = self.files.open_for_reading(join(self.folder, segment_name(start)))
            try:
                scan = scan_entries(file, 0, end - start, self.index_bytes)
                file.require(end - start)  # a segment that was truncated meanwhile needs another index
            finally:
                file.close()
            for position, highest_ms in scan.boundaries:
                index.note(start + position, modified_ms, highest_ms)
            index.finish(start + scan.end, modified_ms, scan.highest_ms)
            if not index.broken:
                self.files.rename(temporary, path)
                temporary = ""
        finally:
            if temporary:  # a leftover would look like another thread's rebuild until the next start
                self.files.remove(temporary)


class SegmentIndex:
    """The index of one segment of a snapshot, for several searches; rebuilt if it is missing or invalid."""

    def __init__(self, log: Snapshot, number: int) -> None:
        self._log = log
        self._number = number
        self._rebuilt = False
        self._search: IndexSearch | None = None

    def split(self, holds: Callable[[Boundary], bool]) -> Split:
        """Search as IndexSearch does; (None, None) if there is no index and the whole segment is to be searched."""
        try:
            return self._open().split(holds)
        except (WrongIndex, OSError):
            self.close()
        log, number = self._log, self._number
        start = log.segments.starts[number]
        is_active = start == log.index.start
        if not is_active and not self._rebuilt:
            self._rebuilt = True
            try:
                log.rebuild_index(number)
                return self._open().split(holds)
            except (WrongIndex, OSError):
                self.close()  # a full disk, or a damaged segment, or another thread is rebuilding it
        # Further searches do without the file: each of thousands of positions would read it once more, in vain.
        self._search = IndexSearch(log.files, "", start, log.index.tail if is_active else (), chunks=0)
        return None, None

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
                # An index that does not reach its segment's end was torn by a crash and lacks the last boundaries.
                if self._search.last().position != log.segments.starts[number + 1]:
                    raise WrongIndex("it does not reach its segment's end")
        return self._search


def find_boundary(log: Snapshot, position: int) -> int:
    """Return the start of the entry that contains ``position``; the log's end is its own boundary.

    Raises OffsetOutOfRange, OSError, and CorruptMessage for an invalid length on the way.
    """
    with closing(find_boundaries(log, [position])) as found:
        return next(found)[1]


def find_boundaries(log: Snapshot, positions: Iterable[int]) -> Generator[tuple[int, int], None, None]:
    """Yield each position once, in ascending order, with the start of the entry that contains it.

    Every position is a step that may block. Close the generator if it is not run to its end. Raises the errors of
    find_boundary; ``find_all_boundaries`` goes on behind them.
    """
    with closing(find_all_boundaries(log, positions)) as found:
        for position, start in found:
            if isinstance(start, Exception):
                raise start
            yield position, start


def find_all_boundaries(
    log: Snapshot, positions: Iterable[int]
) -> Generator[tuple[int, int | SearchError], None, None]:
    """Yield each position once, in ascending order, with the start of its entry, or the error of the search for it.

    Every position is a step that may block. Each segment, and its index, is opened once and read forwards, so no byte
    is read for two positions, and damage is met once for all positions that lie behind it. Close the generator if it is
    not run to its end.
    """
    ascending = sorted(set(positions))
    at = 0
    while at < len(ascending):
        position = ascending[at]
        if not log.start <= position <= log.end:
            yield position, OffsetOutOfRange(f"position {position} is not between {log.start} and {log.end}")
            at += 1
            continue
        if position == log.end:
            yield position, position
            at += 1
            continue
        number = log.segments.find(position)
        stop = bisect_left(ascending, min(log.segments.end_of(number, log.end), log.end), at)
        with closing(_SegmentSearch(log, number)) as search:
            for position in ascending[at:stop]:
                yield position, search.find(position)
        at = stop


class _SegmentSearch:
    """Finds the entries of one segment that contain positions, which ascend from call to call."""

    def __init__(self, log: Snapshot, number: int) -> None:
        self._log = log
        self._start = start = log.segments.starts[number]
        self._end = min(log.segments.end_of(number, log.end), log.end)
        self._index = SegmentIndex(log, number)
        self._file: IFile | None = None
        #: Start and end of the last entry that was found.
        self._found = self._after = start
        #: The boundary from which the last entry was looked for in vain, and the error on the way from there.
        self._failed_from = -1
        self._error: SearchError | None = None

    def find(self, position: int) -> int | SearchError:
        """Return the start of the entry that contains ``position``, or the error of the search for it."""
        if position < self._after:
            return self._found
        before, _ = self._index.split(lambda boundary: boundary.position <= position)
        begin = max(before.position, self._after) if before else self._after
        if begin == position and before and before.position == position:
            self._found = self._after = position
            return position
        if self._error is not None and begin == self._failed_from:
            return self._error  # the way to ``position`` is that to an earlier one, and goes on behind that
        try:
            self._found, self._after = _entry_at(self._open(position), self._start, begin, position, self._end)
        except (WireError, CorruptMessage, OSError) as error:
            self._failed_from, self._error = begin, error
            return error
        return self._found

    def close(self) -> None:
        """Close the files. An error is of no interest: they were only read."""
        with suppress(OSError):
            self._index.close()
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def _open(self, position: int) -> IFile:
        if self._file is None:
            path = join(self._log.folder, segment_name(self._start))
            try:
                self._file = self._log.files.open_for_reading(path)
            except FileNotFoundError as error:
                # If retention removed the file just now, the next request meets the log's new start.
                raise UnknownError(f"cannot look for position {position}: {error}") from error
        return self._file


def _entry_at(file: IFile, start: int, begin: int, position: int, end: int) -> tuple[int, int]:
    """Return start and end of the entry that contains ``position``; ``begin`` is the start of that or an earlier.

    An entry that begins at ``position`` may have an invalid length: then its end is not known, and is ``position`` too.
    """
    after = begin
    for at, size, _ in read_heads(file, begin - start, end - start, position - start):
        entry_start, after = start + at, start + at + size
        if after > position:
            return entry_start, after
    if after == position:
        return position, position  # who fetches from there finds the damage
    raise CorruptMessage("an entry's length is invalid", after)


def next_boundary(log: Snapshot, position: int) -> int:
    """Return the first boundary behind ``position`` that the index vouches for, else the end of its segment or the log.

    For readers that go on behind damage. Raises OffsetOutOfRange.
    """
    if not log.start <= position < log.end:
        raise OffsetOutOfRange(f"position {position} is not between {log.start} and {log.end}")
    number = log.segments.find(position)
    end = min(log.segments.end_of(number, log.end), log.end)
    _, after = log.split(number, lambda boundary: boundary.position <= position)
    return end if after is None else min(after.position, end)


def position_at_time(log: Snapshot, time_ms: int) -> int:
    """Return the position of the first entry at or after a time (ms since the epoch), the end if there is none.

    An entry's time is its timestamp, or the time of its append if it has none. The index knows append times only from
    boundary to boundary, so up to ``index_bytes`` of earlier entries may be included. No later entry is left out.
    Raises OSError.
    """
    for number, start in enumerate(log.segments.starts):
        end = min(log.segments.end_of(number, log.end), log.end)
        if end <= max(start, log.start) or _is_before(log, number, time_ms):
            continue
        # If the append time and the highest timestamp of a boundary are before the time, so are all entries before it.
        first, _ = log.split(number, lambda b: b.append_ms < time_ms and b.highest_ms < time_ms)
        late_position = _late_position(log, number, time_ms, end)
        position = max(first.position if first else start, log.start)
        with closing(_heads(log, number, position, end)) as heads:
            for at, _, time in heads:
                if time >= time_ms or (time < 0 and at >= late_position):
                    return at
    return log.end


class Newest(NamedTuple):
    """The entry with the latest timestamp: that time in ms, and the positions where the entry begins and ends."""

    time: int
    position: int
    after: int


def newest(log: Snapshot) -> Newest | None:
    """Return the first of the entries with the latest timestamp; None if no entry has a timestamp.

    Each segment's index knows the latest of its entries, so only those between two boundaries are read, and of the
    segment in which the log begins perhaps all. Raises OSError, and UnknownError for a file that was removed meanwhile.
    """
    time, number = -1, -1
    for each, start in enumerate(log.segments.starts):
        end = min(log.segments.end_of(each, log.end), log.end)
        found = _newest_time(log, each, end) if end > max(start, log.start) else -1
        if found > time:
            time, number = found, each
    if number < 0:
        return None
    before, _ = log.split(number, lambda boundary: boundary.highest_ms < time)
    position = max(before.position if before else log.segments.starts[number], log.start)
    with closing(_heads(log, number, position, min(log.segments.end_of(number, log.end), log.end))) as heads:
        return next((Newest(each, at, at + size) for at, size, each in heads if each >= time), None)


def _newest_time(log: Snapshot, number: int, end: int) -> int:
    """Return the latest timestamp of a segment's entries up to ``end``, -1 if there is none."""
    start = log.segments.starts[number]
    last, _ = log.split(number, lambda boundary: boundary.position <= end)
    position, known = (last.position, last.highest_ms) if last else (start, -1)
    time = max(known, _newest_between(log, number, max(position, log.start), end))
    if log.start > start:
        _, after = log.split(number, lambda boundary: boundary.position < log.start)
        if after is None or after.highest_ms >= time:  # the entry with that time may lie before the log's start
            time = _newest_between(log, number, log.start, end)
    return time


def _newest_between(log: Snapshot, number: int, position: int, end: int) -> int:
    with closing(_heads(log, number, position, end)) as heads:
        return max((time for _, _, time in heads), default=-1)


def _heads(log: Snapshot, number: int, position: int, end: int) -> Generator[tuple[int, int, int], None, None]:
    """Yield (position, size, newest time in ms or -1) of each entry of a segment from a boundary on; see read_heads."""
    if position >= end:
        return
    start = log.segments.starts[number]
    try:
        file = log.files.open_for_reading(join(log.folder, segment_name(start)))
    except FileNotFoundError as error:
        raise UnknownError(f"cannot look for a time: {error}") from error
    try:
        for at, size, time in read_heads(file, position - start, end - start):
            yield start + at, size, time
    finally:
        file.close()


def _late_position(log: Snapshot, number: int, time_ms: int, end: int) -> int:
    """Return the position from which on a segment's entries may have been appended at or after the time."""
    # Entries between two boundaries were appended between their two times, so all but the first one may be late.
    before, after = log.split(number, lambda boundary: boundary.append_ms < time_ms)
    if after is None and log.segments.segments[number].modified * 1000 < time_ms:
        return end  # after a boundary at or after the time only the clock was set back
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
    latest = max(last.append_ms, last.highest_ms)  # the clock may have been set back since the last but one append
    return last.position == log.segments.starts[number + 1] and latest < time_ms
