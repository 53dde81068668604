"""The search in a segment's index, on any thread, while the owner thread may add to it."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import closing

from logd.interfaces import IFile, IFileOperations
from logd.log.index.index_file import Boundary, IndexFile, WrongIndex

Split = tuple[Boundary | None, Boundary | None]


#: Decoded chunks that a search keeps: those of one bisection, and the neighbours of the last one found.
_KEPT_CHUNKS = 32


class IndexSearch:
    """Searches one segment's index, once or several times; chunks read for one search are kept for the next.

    ``tail`` continues the file's first ``chunks`` chunks (None: all chunks). The file is opened when a search needs it.
    Blocks; one thread at a time.
    """

    def __init__(
        self,
        files: IFileOperations,
        path: str,
        start: int,
        tail: Sequence[Boundary] = (),
        chunks: int | None = None,
    ) -> None:
        self._files = files
        self._path = path
        self._start = start
        self._tail = tail
        self._limit = chunks
        self._file: IFile | None = None
        self._index: IndexFile | None = None
        self._chunks: OrderedDict[int, list[Boundary]] = OrderedDict()

    def split(self, holds: Callable[[Boundary], bool]) -> Split:
        """Return the last boundary for which ``holds`` is true and the first for which it is not, None for neither.

        ``holds`` is true up to some boundary and false from there on. Raises OSError, and WrongIndex for a damaged
        chunk.
        """
        before, after = _split(self._tail, holds)
        if before is not None or (self._limit is not None and self._limit <= 0):
            return before, after
        index = self._opened()
        low, high = 0, index.chunks if self._limit is None else min(self._limit, index.chunks)
        count = high
        while low < high:  # the first chunk whose first boundary does not hold is in [low, high]
            middle = (low + high) // 2
            if holds(self._chunk(middle)[0]):
                low = middle + 1
            else:
                high = middle
        if low < count:
            after = self._chunk(low)[0]
        if low == 0:
            return None, after
        before, inside = _split(self._chunk(low - 1), holds)
        return before, inside or after

    def last(self) -> Boundary:
        """Return the last boundary in a closed segment's index. Raises OSError and WrongIndex."""
        index = self._opened()
        if not index.chunks:
            raise WrongIndex("it is empty")
        return self._chunk(index.chunks - 1)[-1]

    def close(self) -> None:
        """Close the file; more than once is harmless."""
        file, self._file, self._index = self._file, None, None
        if file is not None:
            file.close()

    def _opened(self) -> IndexFile:
        if self._index is None:
            self._file = self._files.open_for_reading(self._path)
            self._index = IndexFile(self._file, self._start)
        return self._index

    def _chunk(self, number: int) -> list[Boundary]:
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = self._opened().chunk(number)
            if len(self._chunks) > _KEPT_CHUNKS:
                self._chunks.popitem(last=False)
        else:
            self._chunks.move_to_end(number)
        return chunk


def last_boundary(files: IFileOperations, path: str, start: int) -> Boundary:
    """Return the last boundary in a closed segment's index. Blocks; raises OSError and WrongIndex."""
    with closing(IndexSearch(files, path, start)) as search:
        return search.last()


def _split(boundaries: Sequence[Boundary], holds: Callable[[Boundary], bool]) -> Split:
    count = len(boundaries)  # the owner thread may be appending: search only the boundaries of this moment
    at = bisect_left(boundaries, True, 0, count, key=lambda boundary: not holds(boundary))
    return boundaries[at - 1] if at else None, boundaries[at] if at < count else None
