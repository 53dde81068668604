"""A place in a file that can be found again: a position, and checksums of what stands at the start and before it.

::

    0            head_bytes              position - tail_bytes        position
    |==== head ====|  ...                        |==== tail ====|     v what comes is not read yet

An inode number is given to another file once its own is gone, and a file may be emptied and filled again in place: the
two checksums tell. Both are over bytes that were read, so a file that only grows always fits its mark.
"""

from __future__ import annotations

from hashlib import blake2b

from attrs import frozen

from logd.collect.files import OpenFile

#: At most so many bytes at a file's start are in its mark: enough for the first lines' times to differ.
HEAD_BYTES = 1024
#: At most so many bytes before the position.
TAIL_BYTES = 256


def checksum(data: bytes) -> str:
    """64 bits of BLAKE2b in hex, empty for no bytes."""
    return blake2b(data, digest_size=8).hexdigest() if data else ""


@frozen
class ReadMark:
    """A position in bytes and what was read before it."""

    position: int = 0
    head_bytes: int = 0
    head: str = ""
    tail_bytes: int = 0
    tail: str = ""


#: The beginning of any file.
START = ReadMark()


def beginning(mark: ReadMark) -> ReadMark:
    """The mark of position 0 in the same file."""
    return ReadMark(0, mark.head_bytes, mark.head)


def mark_at(file: OpenFile, position: int) -> ReadMark:
    """The mark of a place that nothing was read before. Raises OSError."""
    head = file.read(0, min(HEAD_BYTES, position))
    tail = file.read(max(0, position - TAIL_BYTES), min(TAIL_BYTES, position))
    return ReadMark(position, len(head), checksum(head), len(tail), checksum(tail))


def line_start(file: OpenFile, position: int, longest: int) -> int:
    """Where the line begins that ``position`` is in, 0 when that is not within ``longest`` bytes. Raises OSError."""
    begin = max(0, position - longest)
    data = file.read(begin, position - begin)
    newline = data.rfind(b"\n")
    return begin + newline + 1 if newline >= 0 else 0


def fits(file: OpenFile, mark: ReadMark) -> bool:
    """Whether the file has what was read, where it was read. Raises OSError."""
    return read_on(file, mark, 1)[0] is not None


def read_on(file: OpenFile, mark: ReadMark, count: int) -> tuple[bytes | None, bytes]:
    """Up to ``count`` bytes behind the mark, or None when the file is not the one that was read; and what ``moved``
    needs. Raises OSError.

    The bytes and those before them come from one read: a file that is emptied and filled in between is noticed.
    """
    head = file.read(0, mark.head_bytes)
    if checksum(head) != mark.head:
        return None, b""
    data = file.read(mark.position - mark.tail_bytes, mark.tail_bytes + count)
    tail = data[: mark.tail_bytes]
    if checksum(tail) != mark.tail:
        return None, b""
    return data[mark.tail_bytes :], head if mark.head_bytes < HEAD_BYTES else tail


def moved(mark: ReadMark, data: bytes, used: int, before: bytes) -> ReadMark:
    """The mark ``used`` bytes further on, where ``data`` and ``before`` are what ``read_on`` gave."""
    tail = data[used - TAIL_BYTES : used] if used >= TAIL_BYTES else (before + data[:used])[-TAIL_BYTES:]
    if mark.head_bytes < HEAD_BYTES:  # then all that was read is the head, and ``before`` is all of it
        head = (before + data[: min(used, HEAD_BYTES)])[:HEAD_BYTES]
        return ReadMark(mark.position + used, len(head), checksum(head), len(tail), checksum(tail))
    return ReadMark(mark.position + used, mark.head_bytes, mark.head, len(tail), checksum(tail))
