"""The search for the entry that contains the offset of a fetch: whether one is needed, and the search itself."""

from __future__ import annotations

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
