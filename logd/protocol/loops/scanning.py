"""The check of stored entries: complete, of a known magic, with valid checksums. No objects are made of them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from logd.protocol.checksums import CHECKSUMS, CRC32, Checksums
from logd.protocol.entry import (
    CODEC_MASK,
    HEAD,
    HEAD_BYTES,
    KEY_AT,
    KEYED,
    KEYED_FIELDS,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH_BYTES,
    PLAIN,
    WRAPPER,
    WRAPPER_HEAD,
    WRAPPER_HEAD_BYTES,
    Buffer,
)
from logd.protocol.loops.results import Scanned

_unpack_head = HEAD.unpack_from
_unpack_fields = KEYED_FIELDS.unpack_from
_unpack_wrapper = WRAPPER_HEAD.unpack_from
_PLAIN_MINIMUM = LAYOUTS[PLAIN].minimum
_KEYED_MINIMUM = LAYOUTS[KEYED].minimum
_WRAPPER_MINIMUM = LAYOUTS[WRAPPER].minimum


def scan_set(
    data: Buffer,
    begin: int = 0,
    until: int = sys.maxsize,
    *,
    newest: int = -1,
    next_boundary: int = sys.maxsize,
    boundary_bytes: int = sys.maxsize,
    checksums: Checksums = CHECKSUMS,
    readable: Callable[[Buffer, int, int], str] | None = None,
) -> Scanned:
    """Check the entries of ``data`` that begin in ``[begin, until)``; stop at the first unsound or incomplete one.

    A gap is sound if its head is, since its body means nothing. ``newest`` is the highest timestamp before ``begin``.
    The first entry at or behind ``next_boundary`` is a boundary, and the first in every ``boundary_bytes`` from there.

    ``checksums`` may be of another implementation than the one that wrote the entries. ``readable(data, begin, end)``
    is called for each entry whose fields may be invalid; it returns the reason why no reader can read it, or "".
    """
    view = memoryview(data)
    size = len(view)
    last = min(size - LEAST_BYTES, until - 1)
    unpack = _unpack_head
    crc = checksums[CRC32]
    boundaries: list[tuple[int, int]] = []
    problem = ""
    previous = -1
    entries = gaps = gap_bytes = 0
    timestamp = newest  # for entries without a timestamp of their own
    at = begin
    while at <= last:
        length, magic, checksum = unpack(data, at)
        stop = at + LENGTH_BYTES + length
        if not magic and length >= _PLAIN_MINIMUM:
            if stop > size:
                break
            sound = crc(view[at + HEAD_BYTES : stop]) == checksum
        elif magic == KEYED and length >= _KEYED_MINIMUM:
            if stop > size:
                break
            sound = crc(view[at + HEAD_BYTES : stop]) == checksum
            attributes, timestamp, key_length = _unpack_fields(data, at + HEAD_BYTES)
            if sound and readable is not None:
                value_at = at + (KEY_AT + key_length if key_length > 0 else KEY_AT)
                # The most common entries are checked here, all others in the branch below.
                if attributes or timestamp < -1 or key_length < -1 or value_at >= stop or data[value_at]:
                    problem = readable(view, at, stop)
                    if problem:
                        break
        elif magic == WRAPPER and length >= _WRAPPER_MINIMUM:
            if stop > size:
                break
            _, _, attributes, checksum = _unpack_wrapper(data, at)
            sound = crc(view[at + WRAPPER_HEAD_BYTES : stop]) == checksum
            if sound and attributes & CODEC_MASK and readable is not None:
                problem = readable(view, at, stop)
                if problem:
                    break
        else:
            layout = LAYOUTS.get(magic)
            if layout is None or length < layout.minimum:
                problem = f"no entry has length {length} and magic {magic}"
                break
            if stop > size:
                break
            sound = layout.holds(view, at, stop, checksums)
            timestamp = layout.time(data, at)
            if layout.is_gap:
                if sound:
                    gaps += 1
                    gap_bytes += stop - at
            elif sound and readable is not None:
                problem = readable(view, at, stop)
                if problem:
                    break
        if not sound:
            problem = "checksum mismatch"
            break
        if at >= next_boundary:
            boundaries.append((at, newest))
            next_boundary = at + boundary_bytes
        if timestamp > newest:
            newest = timestamp
        entries += 1
        previous = at
        at = stop
    # Half the time of calling the class, which matters as a call between two boundaries covers only some 20 entries.
    return tuple.__new__(Scanned, (at, entries, newest, problem, previous, gaps, gap_bytes, boundaries))
