"""The segments of a partition: a sorted, immutable list that any thread may search."""

from __future__ import annotations

import math
from bisect import bisect_right

from attrs import define, frozen


@define(eq=False)
class Segment:
    """One segment. Only the owner thread changes it, and only while it is the last one."""

    #: Position of its first byte.
    start: int
    #: Modification time in seconds since the epoch.
    modified: float


@frozen
class SegmentList:
    """Segments by ascending start, never empty. A change returns a new list."""

    starts: tuple[int, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, segments: list[Segment]) -> SegmentList:
        """Return a list of ``segments``, which ascend by start."""
        return cls(tuple(segment.start for segment in segments), tuple(segments))

    def find(self, position: int) -> int:
        """Return the index of the segment that contains ``position``, -1 before the first."""
        return bisect_right(self.starts, position) - 1

    def end_of(self, index: int, end: int) -> int:
        """Return the end of segment ``index``; ``end`` is the end of the last one."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else end

    def begins_at(self, position: int) -> bool:
        """Return whether a segment begins at ``position``."""
        number = self.find(position)
        return number >= 0 and self.starts[number] == position

    def closed_end(self, position: int) -> float:
        """Return the end of the segment that contains ``position``, infinity for the last one, which still grows."""
        number = self.find(position) + 1
        return self.starts[number] if number < len(self.starts) else math.inf

    def describe(self, end: int) -> list[tuple[int, int, int]]:
        """Return (start, bytes, modification time in ms) of each segment; ``end`` is the end of the last one."""
        ends = (*self.starts[1:], end)
        return [
            (segment.start, after - segment.start, int(segment.modified * 1000))
            for segment, after in zip(self.segments, ends, strict=True)
        ]

    def with_last(self, segment: Segment) -> SegmentList:
        """Return a list with one more segment at the end."""
        return SegmentList((*self.starts, segment.start), (*self.segments, segment))

    def without_first(self, count: int) -> SegmentList:
        """Return a list without the first ``count`` segments."""
        return SegmentList(self.starts[count:], self.segments[count:])
