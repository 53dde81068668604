"""Finds the file that a compressed file was made from, decompressing no more than the beginning of a gzip file."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress

from logd.collect.files import Files, Seen
from logd.collect.read_mark import HEAD_BYTES, ReadMark, checksum
from logd.collect.source import SourceFile

#: Bytes of a compressed file that contain the first ``HEAD_BYTES`` of its content, with name and comment in the header.
_BEGINNING_BYTES = 16 << 10
#: zlib's wbits for a gzip header and the largest window.
_GZIP = 31
#: Fewer bytes do not identify a file.
_LEAST_BYTES = 16


def original_bytes(files: Files, seen: Seen) -> int | None:
    """Return the length of a gzip file's content, modulo 2**32 as in the format; None for other formats."""
    with suppress(OSError):
        file = files.open(seen.path)
        try:
            if file.read(0, 2) == b"\x1f\x8b" and seen.size >= 18:
                return int.from_bytes(file.read(seen.size - 4, 4), "little")
        finally:
            file.close()
    return None


def is_packed_from(files: Files, seen: Seen, mark: ReadMark, modified: int) -> bool:
    """Return True if a compressed file was made from one with this mark and modification time (ns).

    Compressing keeps the modification time, to the ns or the s. A gzip file is also identified by its beginning.
    """
    if modified > 0 and seen.modified in (modified, modified // 1_000_000_000 * 1_000_000_000):
        return True
    if mark.head_bytes < _LEAST_BYTES:
        return False
    with suppress(OSError, zlib.error):
        file = files.open(seen.path)
        try:
            content = zlib.decompressobj(_GZIP).decompress(file.read(0, _BEGINNING_BYTES), HEAD_BYTES)
        finally:
            file.close()
        return len(content) >= mark.head_bytes and checksum(content[: mark.head_bytes]) == mark.head
    return False


def packed_source(files: Files, seen: Seen, gone: Sequence[SourceFile]) -> SourceFile | None:
    """Return the gone source that a compressed file was made from, or None.

    A source that was found empty has no beginning to compare: it is matched with a file that has content and fits no
    other source.
    """
    for source in gone:
        if is_packed_from(files, seen, source.known, source.modified):
            return source
    if original_bytes(files, seen) == 0:
        return None
    return next((source for source in gone if not source.known.head_bytes), None)
