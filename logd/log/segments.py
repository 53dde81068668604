"""The segments of a partition: a sorted, immutable list that any thread may search."""

from __future__ import annotations

from bisect import bisect_right

from attrs import define, frozen


@define(eq=False)
class Segment:
    """One segment. The owner thread changes it while it is the last one; afterwards it stays as it is."""

    #: Offset of its first byte.
    start: int
    #: When it was last changed, in seconds since the epoch.
    modified: float


@frozen
class SegmentList:
    """Segments by ascending start, never empty. Changes make another list."""

    starts: tuple[int, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, segments: list[Segment]) -> SegmentList:
        """Make a list; ``segments`` ascend."""
        return cls(tuple(segment.start for segment in segments), tuple(segments))

    def find(self, offset: int) -> int:
        """Return the index of the segment that holds ``offset``, -1 when it is before the first."""
        return bisect_right(self.starts, offset) - 1

    def end_of(self, index: int, end: int) -> int:
        """Return where segment ``index`` ends; ``end`` is the end of the last one."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else end

    def with_last(self, segment: Segment) -> SegmentList:
        """Add a segment at the end."""
        return SegmentList((*self.starts, segment.start), (*self.segments, segment))

    def without_first(self, count: int) -> SegmentList:
        """Leave the first ``count`` out."""
        return SegmentList(self.starts[count:], self.segments[count:])
