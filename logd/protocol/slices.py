"""A large message set in slices that begin and end where entries do, so that it can be checked bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol.loops import check_set

_LENGTH = Struct(">i")


def slice_end(data: bytes, at: int, most_entries: int, most_bytes: int) -> int:
    """Return where a slice from ``at`` ends: behind that many entries, or the first that exceeds so many bytes.

    Where a length cannot be, the slice is all the rest: to be refused as the set would be.
    """
    unpack = _LENGTH.unpack_from
    end = len(data)
    last = end - _LENGTH.size
    far = min(at + most_bytes, last)
    for _ in range(most_entries):
        if at > far:
            break
        (length,) = unpack(data, at)
        if length <= 0:
            return end
        at += 4 + length
    return at if at <= last else end


def check_in_slices(
    data: bytes, max_message_bytes: int, most_entries: int, most_bytes: int
) -> Iterator[tuple[int, int]]:
    """Check a set as ``check_set`` does; yield what it returns for each slice.

    Raises what it raises; the position that is named there is then that in a slice, and the slice's is named too.
    """
    at = 0
    while True:
        stop = slice_end(data, at, most_entries, most_bytes)
        try:
            yield check_set(data[at:stop], max_message_bytes)
        except (InvalidMessage, MessageTooLarge) as error:
            if at:
                raise type(error)(f"behind byte {at}: {error}") from None
            raise
        at = stop
        if at >= len(data):
            return
