"""A partition's checkpoint: the start of its log, and the position up to which all of it is flushed and sound.

    logd-checkpoint 1 <start> <flushed> <crc, 8 hex digits>\\n        text; the crc is that of all that precedes it
    logd-checkpoint 2 <start> <first> <flushed> <crc>\\n              when messages inside the first entry were deleted

The checkpoint contains the start so that retention can remove files in any order: recovery does not count the segments
before it as lost. An empty file means that retention had to free space for a checkpoint: the log begins with its oldest
segment, and only the mark records the flushed end.
"""

from __future__ import annotations

from zlib import crc32

from attrs import Factory, frozen

from logd.interfaces import IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import CHECKPOINT, join

_LIMIT = 200


class EmptyCheckpoint(ValueError):
    """The checkpoint was emptied, because the next one did not fit on a full disk; see ``empty_checkpoint``."""


@frozen
class Checkpoint:
    """Positions of a log: its ``start``, its ``flushed`` end, and the ``first`` one that may be read.

    ``first`` is inside the entry at ``start`` where messages of that entry were deleted. A release that does not know
    the second form takes it for a damaged checkpoint, and begins with the first segment.
    """

    start: int
    flushed: int
    first: int = Factory(lambda self: self.start, takes_self=True)

    def encode(self) -> bytes:
        """Return the file's content."""
        inside = "" if self.first == self.start else f"{self.first} "
        text = f"logd-checkpoint {2 if inside else 1} {self.start} {inside}{self.flushed} ".encode()
        return text + f"{crc32(text):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """Return the checkpoint in a file's content; raise ValueError if ``encode`` would not return that content."""
        words = data.split()
        numbers = words[2:-1]
        if len(numbers) not in (2, 3) or not all(map(bytes.isdigit, numbers)):
            raise ValueError("not a checkpoint")
        start, *inside, flushed = map(int, numbers)
        found = cls(start, flushed, *inside)
        if found.encode() != data or not start <= found.first <= flushed:
            raise ValueError("not a checkpoint")
        return found


def read_checkpoint(files: IFileOperations, folder: str) -> Checkpoint | None:
    """Return a partition's checkpoint, None if it has none.

    Raises OSError, ValueError for a damaged file, and EmptyCheckpoint, which is a ValueError.
    """
    data = read_file(files, join(folder, CHECKPOINT), _LIMIT)
    if data == b"":
        raise EmptyCheckpoint("it is empty, because the disk was full")
    return None if data is None else Checkpoint.decode(data)


def write_checkpoint(files: IFileOperations, folder: str, checkpoint: Checkpoint) -> None:
    """Replace a partition's checkpoint, durably on return. Blocks; raises OSError."""
    replace_file(files, folder, CHECKPOINT, checkpoint.encode())


def empty_checkpoint(files: IFileOperations, folder: str) -> None:
    """Record that the log begins with its oldest segment file, in a file that takes no space. Blocks; raises OSError.

    Durable on return if there was a checkpoint, otherwise after a sync of the folder.
    """
    path = join(folder, CHECKPOINT)
    file = files.open(path, create=not files.exists(path))
    try:
        file.truncate(0)
        file.sync_data()
    finally:
        file.close()
