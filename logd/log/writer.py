"""The last segment of a partition: the only one that is written to."""

from __future__ import annotations

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
    """For a writer that nobody counts."""


@define(eq=False)
class SegmentWriter:
    """Appends to one segment and keeps its index. Its file is opened when it is first needed. Owner thread only."""

    files: IFileOperations
    folder: str
    segment: Segment
    index: ActiveIndex
    #: Offset in the log of the next append.
    end: int
    #: The highest timestamp of the segment's messages, -1 if none has one.
    highest_ms: int = -1
    shared: SharedFile | None = None
    #: Called when the file was opened.
    opened: Callable[[], None] = _nothing
    #: The next append is rolled into a new segment when ``end`` is above this, or the time is past that.
    roll_above: int = 0
    roll_at: float = math.inf
    next_boundary: int = 0
    _index_bytes: int = 4096
    _segment_seconds: float = math.inf
    #: Bytes of a failed append could not be taken back: nothing may be appended any more.
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

    def append(self, sets: Sequence[bytes], newest_timestamp: int, now: float) -> int:
        """Append in one gathered write; return how many bytes. Raises OSError, and then nothing of it stays.

        ``newest_timestamp`` in ms or -1; ``now`` in seconds.
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
        """Open the file for appending, or return it as it is open. Raises OSError."""
        if self.shared is None:
            self.shared = SharedFile(self.files.open(join(self.folder, segment_name(self.segment.start))))
            self.opened()
        return self.shared

    def finish(self) -> None:
        """Sum the segment up in its index, and write that."""
        if self.end > self.segment.start:
            self.index.finish(self.end, int(self.segment.modified * 1000), self.highest_ms)

    def close(self) -> None:
        """Let go of the file."""
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.release()


def create_segment(files: IFileOperations, folder: str, start: int, now: float) -> SegmentWriter:
    """Make a new, empty segment; it lasts only after a sync of the folder. Raises OSError."""
    path, index_path = join(folder, segment_name(start)), join(folder, index_name(start))
    for stale in (path, index_path):
        if files.exists(stale):  # left by an attempt that failed half-way: the log ends here, so nothing of it counts
            files.remove(stale)
    file = files.open(path, create=True)
    index = ActiveIndex(files, index_path, start)
    return SegmentWriter(files, folder, Segment(start, now), index, start, shared=SharedFile(file))


def no_segment(files: IFileOperations, folder: str) -> SegmentWriter:
    """Return what stands for the last segment of a partition that cannot be served."""
    return SegmentWriter(files, folder, Segment(0, 0.0), ActiveIndex(files, join(folder, index_name(0)), 0), 0)
