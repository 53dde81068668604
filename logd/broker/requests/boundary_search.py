"""The search for the entry that contains the offset of a fetch: whether one is needed, and the search itself."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from logd.errors import UnknownError, WireError
from logd.log.index.lookup import find_all_boundaries
from logd.log.partition import PartitionLog

#: The position to read a part from, or the error of the search for that position.
Start = int | WireError


def must_search(log: PartitionLog, offset: int) -> bool:
    """Return whether only a search on a thread can tell which entry contains ``offset``."""
    if log.offline is not None or not log.start <= offset <= log.visible_end:
        return False
    return not log.is_boundary_known(offset)


def search_boundary(log: PartitionLog, offset: int) -> Start:
    """Return the start of the entry at ``offset``, or the error of the search. Blocks."""
    with closing(search_boundaries(log, [offset])) as found:
        return next(found)[1]


def search_boundaries(log: PartitionLog, offsets: Iterable[int]) -> Generator[tuple[int, Start], None, None]:
    """Yield each offset once, ascending, with the start of the entry there or the error of the search. Steps block.

    No byte is read for two offsets: a fetch may name one partition at thousands, which may all lie behind damage.
    """
    try:
        snapshot = log.snapshot(log.visible_end)
    except WireError as error:
        for offset in sorted(set(offsets)):
            yield offset, error
        return
    with closing(find_all_boundaries(snapshot, offsets)) as found:
        for offset, start in found:
            if isinstance(start, int | WireError):
                yield offset, start
            else:
                yield offset, UnknownError(f"cannot find the start of the entry at offset {offset}: {start}")
