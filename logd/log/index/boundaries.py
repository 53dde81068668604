"""The places of a segment that its index vouches for: there entries begin, however damaged they are."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from attrs import define, field

from logd.interfaces import IFileOperations
from logd.log.index.index_file import IndexFile, WrongIndex

#: Boundaries kept of one index, 8 bytes each: those of a segment of 1 GiB with one in each 4 KiB are 262,144. Of more
#: than this, some are left out evenly.
MOST_BOUNDARIES = 1 << 20


@define
class Boundaries:
    """Positions in a segment's file, ascending, where its index says that entries begin."""

    positions: array[int] = field(factory=lambda: array("q"))
    #: What is wrong with the index file, empty when nothing is.
    problem: str = ""
    #: The last boundary in the file, -1 where there is none: that of a closed segment's index is the segment's end.
    last: int = -1
    missing: bool = False

    def after(self, position: int) -> int:
        """Return the index of the first boundary behind ``position``."""
        return bisect_right(self.positions, position)

    def at_or_after(self, position: int) -> int:
        """Return the index of the first boundary that is not before ``position``."""
        return bisect_left(self.positions, position)


def read_boundaries(files: IFileOperations, path: str, start: int, end: int) -> Boundaries:
    """Read the index at ``path`` of the segment that begins at offset ``start``; raises OSError but for a missing file.

    Only boundaries up to position ``end`` of the segment's file are kept: behind what is known to be flushed an index
    may tell of entries that a crash took. At the first chunk whose checksum does not hold the reading ends.
    """
    found = Boundaries()
    positions = found.positions
    try:
        file = files.open_for_reading(path)
    except FileNotFoundError:
        found.missing = True
        return found
    try:
        index = IndexFile(file, start)
        every = max(1, -(-index.chunks * 512 // MOST_BOUNDARIES))
        before = -1
        count = 0
        for number in range(index.chunks):
            for boundary in index.chunk(number):
                position = boundary.position - start
                if position <= before:
                    raise WrongIndex("its positions do not ascend")
                found.last = before = position
                if position <= end and count % every == 0:
                    positions.append(position)
                count += 1
    except WrongIndex as error:
        found.problem = str(error)
    finally:
        file.close()
    return found
