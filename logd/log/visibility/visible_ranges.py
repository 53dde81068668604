"""Ranges of a log whose visible bytes are counted together, as the log grows: what a waiting fetch asks for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import define, field
from zope.interface import implementer

from logd.interfaces import IFlushListener
from logd.log.visibility.waiters import Wait

if TYPE_CHECKING:
    from logd.log.partition import PartitionLog


class RangesOwner(Protocol):
    """The fetch that waits for the bytes of ranges."""

    def moved(self, ranges: VisibleRanges) -> None:
        """Count the ranges again: the visible end of their log has moved."""

    def failed(self, ranges: VisibleRanges, error: BaseException) -> None:
        """Expect no more bytes of the ranges: their log went offline or was deleted."""


@implementer(IFlushListener)
@define(eq=False)
class VisibleRanges:
    """Ranges of one log, as a fetch asks for them, and the bytes of them that are visible.

    A count costs by the ranges that begin or end in what has become visible, not by their number: a fetch may name a
    partition thousands of times, and the partition may be flushed hundreds of times a second.
    """

    _owner: RangesOwner
    log: PartitionLog
    #: The visible end up to which the bytes are counted.
    counted: int
    #: The positions where ranges begin, and those where ranges end; both ascend. There is one range at least.
    _starts: list[int]
    _stops: list[int]
    _wait: Wait | None = field(default=None, init=False)

    @property
    def first(self) -> int:
        """The position where the first range begins."""
        return self._starts[0]

    @property
    def incomplete(self) -> int:
        """The number of ranges that end behind what is counted."""
        return len(self._stops) - bisect_right(self._stops, self.counted)

    def add(self, start: int, stop: int) -> None:
        """Add a range; of its bytes only those behind ``counted`` are counted here."""
        insort(self._starts, start)
        insort(self._stops, stop)

    def count(self) -> int | None:
        """Count up to the visible end; return the number of bytes that are new, over all ranges.

        None if a range has to be answered now: the segment in which it begins is closed and visible to its end, so that
        it gets no more bytes, or it is not in the log any more.
        """
        log, starts, stops = self.log, self._starts, self._stops
        before, end = self.counted, log.visible_end
        if not log.start <= starts[0] <= starts[-1] <= log.end:
            return None
        # A segment that ends at ``before`` may have been closed since. Where one ends earlier, that was counted.
        closed = log.closed_segment_end(max(before - 1, log.start))
        while closed <= end:
            if bisect_left(starts, closed) > bisect_left(stops, closed):
                return None
            closed = log.closed_segment_end(int(closed))
        self.counted = end
        return _bytes_behind(starts, before, end) - _bytes_behind(stops, before, end)

    def wait_for(self, position: int) -> None:
        """Have the ranges counted again once the log's visible end is at ``position``."""
        wait = self.log.wait_visible(position, self)
        if wait is not None:  # else the log has grown there, and the ranges may wait for more by now
            self._wait = wait

    def stop(self) -> None:
        """Stop waiting."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.cancel()

    # IFlushListener

    def visible(self, end: int) -> None:
        """Have the ranges counted again: the log's visible end has moved."""
        self._owner.moved(self)

    def failed(self, error: BaseException) -> None:
        """Tell that the log went offline or was deleted."""
        self._owner.failed(self, error)


def _bytes_behind(positions: Sequence[int], before: int, end: int) -> int:
    """Return how many bytes lie between each position and ``end``, in all, less those between it and ``before``."""
    first, last = bisect_left(positions, before), bisect_left(positions, end)
    return last * end - first * before - sum(positions[first:last])
