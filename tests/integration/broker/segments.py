"""Checks of a partition's files without logd's code: by docs/protocol.md, and with crcmod's checksums."""

from __future__ import annotations

from pathlib import Path
from struct import unpack_from
from typing import Any

from crcmod.predefined import mkCrcFun

_crc32: Any = mkCrcFun("crc-32")


class Unsound(AssertionError):
    """A partition's folder breaks a rule of docs/protocol.md."""


def partition_bytes(folder: Path) -> tuple[int, bytes]:
    """Return a log's first position and all of its bytes.

    Raises Unsound unless each segment begins where the one before ends.
    """
    paths = sorted(folder.glob("*.log"))
    first = int(paths[0].stem)
    content = b""
    for path in paths:
        if int(path.stem) != first + len(content):
            raise Unsound(f"{path} does not begin at {first + len(content)}")
        content += path.read_bytes()
    return first, content


def check_partition(folder: Path) -> int:
    """Check every entry of a partition, and that the files agree; return the number of entries. Raises Unsound."""
    count = 0
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            if len(data) - at < 9:
                raise Unsound(f"{path}: {len(data) - at} bytes are left at {at}")
            length, magic, crc = unpack_from(">iBI", data, at)
            end = at + 4 + length
            if magic == 1:
                crc = unpack_from(">I", data, at + 6)[0]
            begin = at + (10 if magic == 1 else 9)
            if magic not in (0, 1, 2) or end < begin or end > len(data):
                raise Unsound(f"{path}: no entry of {length} bytes and magic {magic} at {at}")
            if _crc32(data[begin:end]) != crc:
                raise Unsound(f"{path}: checksum mismatch at {at}")
            count += 1
            at = end
    first, content = partition_bytes(folder)
    words = (folder / "checkpoint").read_bytes().split()
    if not first <= int(words[3]) <= first + len(content):
        raise Unsound(f"{folder}: the checkpoint says {words} of {first} to {first + len(content)}")
    return count
