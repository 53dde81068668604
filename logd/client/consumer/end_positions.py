"""The positions that a reader is to reach, one for each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Ends:
    """Says whether all are reached, at a cost that follows what is reached and not the number of partitions."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self._ends = ends
        #: Partitions that had not reached their ends when they were looked at; the last one is looked at next.
        self._missing = list(ends)
        self._seeks = 0

    def reached(self, position: Callable[[int], int], seeks: int) -> bool:
        """Whether every partition is at its end by ``position(partition)``.

        Positions are taken to grow, but where ``seeks``, a count of the times that one was set, is another one than
        before.
        """
        if seeks != self._seeks:
            self._seeks = seeks
            self._missing = list(self._ends)
        missing = self._missing
        while missing and position(missing[-1]) >= self._ends[missing[-1]]:
            missing.pop()
        return not missing
