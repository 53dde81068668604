"""The positions at which a reader is to stop, one for each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Ends:
    """A check that all positions are reached, at a cost that follows progress and not the number of partitions."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self._ends = ends
        #: Partitions that had not reached their ends when last checked; the last one is checked next.
        self._missing = list(ends)
        self._seeks = 0

    def reached(self, position: Callable[[int], int], seeks: int) -> bool:
        """Return whether every partition is at its end by ``position(partition)``.

        Positions are assumed to grow, unless ``seeks``, a count of the times that one was set, has changed.
        """
        if seeks != self._seeks:
            self._seeks = seeks
            self._missing = list(self._ends)
        missing = self._missing
        while missing and position(missing[-1]) >= self._ends[missing[-1]]:
            missing.pop()
        return not missing
