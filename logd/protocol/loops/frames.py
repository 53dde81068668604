"""Joins the sets of requests that follow each other for the same place: int32 size | head | int32 set_bytes | set."""

from __future__ import annotations

from logd.protocol.entry import LEAST_BYTES, LENGTH, LENGTH_BYTES, Buffer
from logd.protocol.loops.results import JoinedFrames

_unpack_length = LENGTH.unpack_from
#: The least N of any entry.
_LEAST = LEAST_BYTES - LENGTH_BYTES
#: Fewer frames are not worth joining.
_FEWEST = 2


def join_frames(data: Buffer, begin: int, head_bytes: int, frame_bytes: int, most: int) -> JoinedFrames | None:
    """Return the sets of the frames from ``begin`` on, at most ``most``, whose head is that of the first, as one set.

    The frames end before one that is incomplete, has another head of ``head_bytes`` bytes or a size above
    ``frame_bytes``, or whose set is empty or does not end with an entry: so an entry of the joined set is one of its
    own set, too. None for fewer than two frames. Nothing but lengths is checked.
    """
    size_of = _unpack_length
    end = len(data)
    beside = LENGTH_BYTES + head_bytes + LENGTH_BYTES
    head = data[begin + LENGTH_BYTES : begin + LENGTH_BYTES + head_bytes]
    sets: list[Buffer] = []
    sizes: list[int] = []
    at = begin
    while len(sizes) < most and at + beside <= end:
        (size,) = size_of(data, at)
        first, stop = at + beside, at + LENGTH_BYTES + size
        if size > frame_bytes or not first < stop <= end or data[at + LENGTH_BYTES : first - LENGTH_BYTES] != head:
            break
        (set_bytes,) = size_of(data, first - LENGTH_BYTES)
        if set_bytes != stop - first or not _is_whole(data, first, stop):
            break
        sets.append(data[first:stop])
        sizes.append(set_bytes)
        at = stop
    if len(sizes) < _FEWEST:
        return None
    return JoinedFrames(at, b"".join(sets), sizes)


def _is_whole(data: Buffer, at: int, stop: int) -> bool:
    """Return whether the entries from ``at`` on, by their lengths, end at ``stop``."""
    while stop - at >= LEAST_BYTES:
        (length,) = _unpack_length(data, at)
        if length < _LEAST:
            return False
        at += LENGTH_BYTES + length
    return at == stop
