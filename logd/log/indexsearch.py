"""Searching a segment's index, from any thread, while the owner may be adding to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from logd.interfaces import IFileOperations
from logd.log.indexfile import Boundary, IndexFile, WrongIndex

Split = tuple[Boundary | None, Boundary | None]


def split_index(
    files: IFileOperations,
    path: str,
    start: int,
    holds: Callable[[Boundary], bool],
    tail: Sequence[Boundary] = (),
    chunks: int | None = None,
) -> Split:
    """Return the last boundary that ``holds`` and the first that does not; None where there is none.

    ``holds`` is true up to some boundary and false from there on. ``tail`` continues the file's first ``chunks`` chunks
    (None: all that there are). Blocks; raises OSError, and WrongIndex when a chunk that it needs is damaged.
    """
    before, after = _split(tail, holds)
    if before is not None or chunks == 0 or (chunks is not None and chunks < 0):
        return before, after
    file = files.open_for_reading(path)
    try:
        found = IndexFile(file, start)
        count = found.chunks if chunks is None else min(chunks, found.chunks)
        low, high = 0, count  # the first chunk whose first boundary does not hold is in [low, high]
        while low < high:
            middle = (low + high) // 2
            if holds(found.chunk(middle)[0]):
                low = middle + 1
            else:
                high = middle
        if low < count:
            after = found.chunk(low)[0]
        if low == 0:
            return None, after
        before, inside = _split(found.chunk(low - 1), holds)
        return before, inside or after
    finally:
        file.close()


def last_boundary(files: IFileOperations, path: str, start: int) -> Boundary:
    """Return the last boundary in a closed segment's index. Blocks; raises OSError and WrongIndex."""
    file = files.open_for_reading(path)
    try:
        found = IndexFile(file, start)
        if not found.chunks:
            raise WrongIndex("it is empty")
        return found.chunk(found.chunks - 1)[-1]
    finally:
        file.close()


def _split(boundaries: Sequence[Boundary], holds: Callable[[Boundary], bool]) -> Split:
    count = len(boundaries)  # the owner may be appending: look at no more than are there now
    at = bisect_left(boundaries, True, 0, count, key=lambda boundary: not holds(boundary))
    return boundaries[at - 1] if at else None, boundaries[at] if at < count else None
