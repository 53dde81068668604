"""The entry boundaries that a segment's index vouches for, however damaged the entries are."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from attrs import define, field

from logd.interfaces import IFileOperations
from logd.log.index.index_file import IndexFile, WrongIndex

#: Boundaries kept of one index, 8 bytes each. A segment of 1 GiB with one in each 4 KiB has 262,144. Of a larger number
#: some are left out, evenly.
MOST_BOUNDARIES = 1 << 20


@define
class Boundaries:
    """The file positions, ascending, at which entries begin according to a segment's index."""

    positions: array[int] = field(factory=lambda: array("q"))
    #: The problem with the index file, empty if there is none.
    problem: str = ""
    #: The last boundary in the file, -1 if there is none. In a closed segment's index it is the segment's end.
    last: int = -1
    missing: bool = False

    def after(self, position: int) -> int:
        """Return the index of the first boundary behind ``position``."""
        return bisect_right(self.positions, position)

    def at_or_after(self, position: int) -> int:
        """Return the index of the first boundary that is not before ``position``."""
        return bisect_left(self.positions, position)


def read_boundaries(files: IFileOperations, path: str, start: int, end: int) -> Boundaries:
    """Read the index at ``path`` of the segment that begins at position ``start``.

    Only boundaries up to file position ``end`` of the segment are kept: beyond the flushed bytes an index may name
    entries that were lost in a crash. Reading ends at the first chunk with a checksum mismatch. Raises OSError, but not
    for a missing file.
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
