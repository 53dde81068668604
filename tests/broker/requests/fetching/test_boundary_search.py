"""Tests of the search for the entries at which the parts of a fetch begin."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.requests.boundary_search import Start, search_boundaries
from logd.errors import UnknownError
from logd.log.partition import PartitionLog


class FailingLog:
    """A log of which some bytes cannot be read, and whose file may not be closed; an entry begins at each ten."""

    def __init__(self, unreadable: Iterable[int] = (), closes: bool = True) -> None:
        self.unreadable = set(unreadable)
        self.closes = closes

    def find_boundary(self, offset: int) -> int:
        """Return the start of the entry at an offset."""
        if offset in self.unreadable:
            raise OSError(f"no byte at {offset}")
        return offset // 10 * 10

    def find_boundaries(self, offsets: Iterable[int]) -> Generator[tuple[int, int], None, None]:
        """Yield each offset with the start of its entry."""
        try:
            for offset in offsets:
                yield offset, self.find_boundary(offset)
        finally:
            if not self.closes:
                raise OSError("the file cannot be closed")


class BoundarySearchTests(SynchronousTestCase):
    """``search_boundaries``."""

    def found(self, log: FailingLog, *offsets: int) -> dict[int, Start]:
        """Search, and return what was found."""
        return dict(search_boundaries(cast(PartitionLog, log), offsets))

    def test_each_offset_that_cannot_be_read_has_an_error_of_its_own(self) -> None:
        """The others are found, those behind it too."""
        found = self.found(FailingLog([12, 33]), 33, 5, 12, 25, 47, 5)
        self.assertEqual({offset for offset, start in found.items() if isinstance(start, UnknownError)}, {12, 33})
        self.assertEqual((found[5], found[25], found[47]), (0, 20, 40))

    def test_a_file_that_cannot_be_closed_spoils_nothing(self) -> None:
        """All was read by then."""
        self.assertEqual(self.found(FailingLog(closes=False), 5, 12), {5: 0, 12: 10})
