"""The files of one partition as readers get them: opened for a while, and left alone where a read has just failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from logd.errors import UnknownError
from logd.log.disk.errors import PASSING
from logd.log.disk.names import join, segment_name
from logd.log.disk.open_files import FileRange
from logd.log.partition_context import PartitionContext
from logd.log.segments import SegmentList
from logd.log.unreadable import UnreadablePlaces
from logd.log.writer import SegmentWriter

if TYPE_CHECKING:
    from logd.log.partition import PartitionLog


@define(eq=False)
class SegmentReads:
    """Opens the segments of one partition for readers. Owner thread only; no call reads from the disk."""

    _folder: str
    _context: PartitionContext
    #: The positions at which a read has failed.
    unreadable: UnreadablePlaces = field(factory=UnreadablePlaces, init=False)

    def open(
        self, log: PartitionLog, segments: SegmentList, writer: SegmentWriter, position: int, end: int, max_bytes: int
    ) -> FileRange:
        """Return the bytes of ``log`` from ``position`` on, up to ``end`` and never past the segment's end.

        ``writer`` writes the last of the ``segments``. The caller closes the range. Raises UnknownError, which may be
        temporary.
        """
        if self.unreadable:
            end = self.unreadable.clip(position, end, self._context.clock.seconds())
        base = writer.segment.start
        try:
            if position >= base:
                shared = writer.shared or writer.open()
                shared.hold()
                limit = end
            else:
                number = segments.find(position)
                base = segments.starts[number]
                limit = min(segments.starts[number + 1], end)
                shared = self._context.open_files.acquire(join(self._folder, segment_name(base)), limit - base)
        except OSError as error:
            if error.errno not in PASSING and self.unreadable.note(base, str(error), self._context.clock.seconds()):
                self._context.report(
                    "a segment of {folder} cannot be opened: {error}", folder=self._folder, error=error
                )
            raise UnknownError(f"cannot open a segment of {self._folder}: {error}") from error
        return FileRange(shared, position - base, min(limit - position, max_bytes), log, base)

    def failed(self, position: int, error: OSError) -> None:
        """Record that a read at ``position`` failed: for a while ``open`` stops short of that position."""
        if self.unreadable.note(position, str(error), self._context.clock.seconds()):
            text = "{folder} cannot be read at position {position}: {error}"
            self._context.report(text, folder=self._folder, position=position, error=error)

    def replaced(self, start: int) -> None:
        """Open the closed segment that begins at ``start`` again for the next reader, because its file was replaced."""
        self.removed(start)
        self.unreadable.clear()

    def removed(self, start: int) -> None:
        """Keep the closed segment that begins at ``start`` open no longer, because its file goes."""
        self._context.open_files.forget(join(self._folder, segment_name(start)))
