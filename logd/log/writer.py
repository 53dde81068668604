"""The writer of a partition's last segment, the only one that is appended to."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Sequence

from attrs import define

from logd.config import LogSettings
from logd.interfaces import IFileOperations
from logd.log.disk.names import index_name, join, segment_name
from logd.log.disk.open_files import SharedFile
from logd.log.index.index import ActiveIndex
from logd.log.segments import Segment


def _nothing() -> None:
    """Do nothing: the default for ``SegmentWriter.opened``."""


@define(eq=False)
class SegmentWriter:
    """Appends to one segment and maintains its index. The file is opened when it is first needed. Owner thread only."""

    files: IFileOperations
    folder: str
    segment: Segment
    index: ActiveIndex
    #: Log position of the next append.
    end: int
    #: The highest timestamp of the segment's messages in ms, -1 if there is none.
    highest_ms: int = -1
    shared: SharedFile | None = None
    #: Called after the file was opened.
    opened: Callable[[], None] = _nothing
    #: The next append begins a new segment if ``end`` is above this position, or from this time (seconds) on.
    roll_above: int = 0
    roll_at: float = math.inf
    next_boundary: int = 0
    _index_bytes: int = 4096
    _segment_seconds: float = math.inf
    #: Part of a failed append could not be removed from the file, so nothing may be appended any more.
    torn: bool = False

    def configure(self, settings: LogSettings) -> None:
        """Take the limits from ``settings``."""
        start = self.segment.start
        self.roll_above = start + settings.segment_bytes
        self._segment_seconds = settings.segment_ms / 1000
        self._index_bytes = settings.index_bytes
        if self.end > start:
            first_ms = self.index.first_ms
            began = first_ms / 1000 if first_ms >= 0 else self.segment.modified
            self.roll_at = began + self._segment_seconds
        tail = self.index.tail
        if tail and tail[-1].position < self.end:
            self.next_boundary = tail[-1].position + self._index_bytes
        else:
            self.next_boundary = self.end

    def append(self, sets: Sequence[bytes | memoryview], newest_timestamp: int, now: float) -> int:
        """Append the sets in one gathered write and return the number of bytes.

        ``newest_timestamp`` is in ms or -1, ``now`` in seconds. Raises OSError; the file is then as before, unless
        ``torn`` is set.
        """
        shared = self.shared or self.open()
        first = self.end
        segment = self.segment
        try:
            count = shared.file.append(sets)
        except OSError:
            self.torn = True
            shared.file.truncate(first - segment.start)
            self.torn = False
            raise
        segment.modified = now
        if first >= self.next_boundary:
            if first == segment.start:
                self.roll_at = now + self._segment_seconds
            self.index.note(first, int(now * 1000), self.highest_ms)
            self.next_boundary = first + self._index_bytes
        if newest_timestamp > self.highest_ms:
            self.highest_ms = newest_timestamp
        self.end = first + count
        return count

    def open(self) -> SharedFile:
        """Return the file, opened for appending if it is not open yet. Raises OSError."""
        if self.shared is None:
            file = self.files.open(join(self.folder, segment_name(self.segment.start)))
            try:
                size, written = file.size(), self.end - self.segment.start
                if size != written:  # changed from outside: an append would lie at another position than the log's end
                    raise OSError(errno.EIO, f"{file.path}: the file has {size} bytes, though {written} were written")
            except OSError:
                file.close()
                raise
            self.shared = SharedFile(file)
            self.opened()
        return self.shared

    def finish(self) -> None:
        """Add the segment's end to its index, and write the index."""
        if self.end > self.segment.start:
            self.index.finish(self.end, int(self.segment.modified * 1000), self.highest_ms)

    def close(self) -> None:
        """Release the file."""
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.release()


def create_segment(files: IFileOperations, folder: str, start: int, now: float) -> SegmentWriter:
    """Make a new, empty segment, which is durable only after a sync of the folder. Raises OSError."""
    path, index_path = join(folder, segment_name(start)), join(folder, index_name(start))
    for stale in (path, index_path):
        if files.exists(stale):  # left by an attempt that failed half-way: the log ends here, so it holds no message
            files.remove(stale)
    file = files.open(path, create=True)
    index = ActiveIndex(files, index_path, start)
    return SegmentWriter(files, folder, Segment(start, now), index, start, shared=SharedFile(file))


def no_segment(files: IFileOperations, folder: str) -> SegmentWriter:
    """Return a placeholder for the last segment of a partition that cannot be served."""
    return SegmentWriter(files, folder, Segment(0, 0.0), ActiveIndex(files, join(folder, index_name(0)), 0), 0)
