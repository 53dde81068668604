"""The search for the entry that contains the offset of a fetch: whether one is needed, and the search itself."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from logd.errors import CorruptMessage, UnknownError, WireError
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
    try:
        return log.find_boundary(offset)
    except WireError as error:
        return error
    except (CorruptMessage, OSError) as error:
        return UnknownError(f"cannot find the start of the entry at offset {offset}: {error}")


def search_boundaries(log: PartitionLog, offsets: Iterable[int]) -> Generator[tuple[int, Start], None, None]:
    """Yield each offset once, ascending, with what ``search_boundary`` returns. Every step blocks.

    No byte is read for two offsets, but behind an error: a fetch may name one partition at thousands of offsets.
    """
    left = sorted(set(offsets))
    while left:
        done = 0
        try:
            with closing(log.find_boundaries(left)) as found:
                for offset, start in found:
                    yield offset, start
                    done += 1
        except (WireError, CorruptMessage, OSError):
            for offset in left[done : done + 1]:  # none if all were read, and the file could not be closed
                yield offset, search_boundary(log, offset)
            done += 1
        left = left[done:]
