"""Walks over entries by their lengths or heads alone, without a check of their checksums."""

from __future__ import annotations

from logd.protocol.entry import HEAD, LAYOUTS, LEAST_BYTES, LENGTH, LENGTH_BYTES, Buffer

#: The least N of any entry.
_LEAST = LEAST_BYTES - LENGTH_BYTES


def heads_of_set(data: Buffer, begin: int = 0) -> list[tuple[int, int, int]]:
    """Return index, whole size and newest time (ms, -1 for none) of each entry from ``begin`` on, by its head alone.

    The data may end inside the last entry. Stops at an incomplete or invalid head.
    """
    heads: list[tuple[int, int, int]] = []
    append = heads.append
    unpack = HEAD.unpack_from
    size = len(data)
    last = size - LEAST_BYTES
    at = begin
    while at <= last:
        length, magic, _ = unpack(data, at)
        if not magic and length >= _LEAST:
            append((at, LENGTH_BYTES + length, -1))
        else:
            layout = LAYOUTS.get(magic)
            if layout is None or length < layout.minimum or at + layout.head_bytes > size:
                break
            append((at, LENGTH_BYTES + length, layout.time(data, at)))
        at += LENGTH_BYTES + length
    return heads


def ends_of_set(data: Buffer, begin: int = 0) -> list[int]:
    """Return the index behind each entry from ``begin`` on; the last one may lie behind the data's end.

    Stops where fewer bytes than a length are left, and at an invalid length.
    """
    ends: list[int] = []
    append = ends.append
    unpack = LENGTH.unpack_from
    last = len(data) - LENGTH_BYTES
    at = begin
    while at <= last:
        (length,) = unpack(data, at)
        if length < _LEAST:
            break
        at += LENGTH_BYTES + length
        append(at)
    return ends


def slice_end(data: Buffer, at: int, most_entries: int, most_bytes: int) -> int:
    """Return the end of a slice from ``at``: behind ``most_entries``, or the first entry that exceeds ``most_bytes``.

    At an invalid length the slice is all the rest, which is then refused as the whole set would be.
    """
    unpack = LENGTH.unpack_from
    end = len(data)
    last = end - LENGTH_BYTES
    far = min(at + most_bytes, last)
    for _ in range(most_entries):
        if at > far:
            break
        (length,) = unpack(data, at)
        if length <= 0:
            return end
        at += LENGTH_BYTES + length
    return at if at <= last else end
