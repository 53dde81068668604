"""A mark in a file: a position, with checksums of the start of the file and of the bytes before the position.

::

    0            head_bytes              position - tail_bytes        position
    |==== head ====|  ...                        |==== tail ====|     from here on not read yet

An inode number may be reused for another file, and a file may be truncated and filled again in place: the checksums
detect both. The head may cover bytes that were seen and not read yet. A file that only grows always fits its mark.
"""

from __future__ import annotations

from hashlib import blake2b

from attrs import evolve, frozen

from logd.collect.files import OpenFile

#: The most bytes of a file's start in its mark: enough for the times in the first lines to differ.
HEAD_BYTES = 1024
#: The most bytes before the position in the mark.
TAIL_BYTES = 256


def checksum(data: bytes) -> str:
    """Return 64 bits of BLAKE2b in hex; empty for no bytes."""
    return blake2b(data, digest_size=8).hexdigest() if data else ""


@frozen
class ReadMark:
    """A position in bytes, and the checksums of bytes before it."""

    position: int = 0
    head_bytes: int = 0
    head: str = ""
    tail_bytes: int = 0
    tail: str = ""


#: The mark at the beginning of any file.
START = ReadMark()


def beginning(mark: ReadMark) -> ReadMark:
    """Return the mark of position 0 in the same file."""
    return ReadMark(0, mark.head_bytes, mark.head)


def with_head(mark: ReadMark, birth: ReadMark) -> ReadMark:
    """Return the mark with the head of ``birth``, a mark of position 0 in the same file, if that is longer."""
    if birth.head_bytes <= mark.head_bytes:
        return mark
    return evolve(mark, head_bytes=birth.head_bytes, head=birth.head)


def seen_at_once(file: OpenFile) -> tuple[ReadMark, int]:
    """Return the mark of position 0 with the longest head, and the size of the same content. Raises OSError.

    A content that is replaced while it is looked at has no head and no size.
    """
    head = file.read(0, HEAD_BYTES)
    size = file.seen().size
    if not head or file.read(0, len(head)) != head:
        return START, 0
    return ReadMark(0, len(head), checksum(head)), size


def mark_at(file: OpenFile, position: int) -> ReadMark:
    """Return the mark of a position, reading the bytes it needs. Raises OSError."""
    head = file.read(0, min(HEAD_BYTES, position))
    tail = file.read(max(0, position - TAIL_BYTES), min(TAIL_BYTES, position))
    return ReadMark(position, len(head), checksum(head), len(tail), checksum(tail))


def line_start(file: OpenFile, position: int, longest: int) -> int:
    """Return the start of the line at ``position``, or 0 if it is not within ``longest`` bytes. Raises OSError."""
    begin = max(0, position - longest)
    data = file.read(begin, position - begin)
    newline = data.rfind(b"\n")
    return begin + newline + 1 if newline >= 0 else 0


def fits(file: OpenFile, mark: ReadMark) -> bool:
    """Return True if the file still fits the mark. Raises OSError."""
    return read_on(file, mark, 1)[0] is not None


def read_on(file: OpenFile, mark: ReadMark, count: int) -> tuple[bytes | None, bytes]:
    """Return up to ``count`` bytes after the mark, None if the file does not fit it, and the ``before`` of ``moved``.

    The bytes and those before them come from one read, so truncating and refilling in between is noticed. Raises
    OSError.
    """
    if mark.position <= mark.head_bytes:  # all that was read is in the head
        data = file.read(0, max(mark.head_bytes, mark.position + count))
        if checksum(data[: mark.head_bytes]) != mark.head:
            return None, b""
        return data[mark.position : mark.position + count], data[: mark.position]
    if checksum(file.read(0, mark.head_bytes)) != mark.head:
        return None, b""
    data = file.read(mark.position - mark.tail_bytes, mark.tail_bytes + count)
    tail = data[: mark.tail_bytes]
    if checksum(tail) != mark.tail:
        return None, b""
    return data[mark.tail_bytes :], tail


def moved(mark: ReadMark, data: bytes, used: int, before: bytes) -> ReadMark:
    """Return the mark ``used`` bytes further on, where ``data`` and ``before`` are the results of ``read_on``."""
    tail = data[used - TAIL_BYTES : used] if used >= TAIL_BYTES else (before + data[:used])[-TAIL_BYTES:]
    if mark.position < HEAD_BYTES:  # ``before`` is everything that was read
        head = (before + data[: min(used, HEAD_BYTES)])[:HEAD_BYTES]
        return ReadMark(mark.position + used, len(head), checksum(head), len(tail), checksum(tail))
    return ReadMark(mark.position + used, mark.head_bytes, mark.head, len(tail), checksum(tail))
