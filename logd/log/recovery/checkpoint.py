"""A partition's checkpoint: from where its log begins, and up to where all is known to be flushed and sound.

    logd-checkpoint 1 <start> <flushed> <crc, 8 hex digits>\\n        text; the crc is that of all that precedes it

The start is in it so that retention can remove files in any order: recovery does not miss what precedes it. An empty
file says that retention had to make room for a checkpoint: the log begins with its oldest segment, and the mark alone
vouches for what is flushed.
"""

from __future__ import annotations

from zlib import crc32

from attrs import frozen

from logd.interfaces import IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import CHECKPOINT, join

_LIMIT = 200


class EmptyCheckpoint(ValueError):
    """A checkpoint was emptied because a full disk did not take the next one; see ``empty_checkpoint``."""


@frozen
class Checkpoint:
    """Offsets: ``start`` of the log, and the end of what was ``flushed``."""

    start: int
    flushed: int

    def encode(self) -> bytes:
        """Return the file's content."""
        text = f"logd-checkpoint 1 {self.start} {self.flushed} ".encode()
        return text + f"{crc32(text):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """Read a file's content; raise ValueError when it is not what ``encode`` makes."""
        words = data.split()
        if len(words) != 5 or not (words[2].isdigit() and words[3].isdigit()):
            raise ValueError("not a checkpoint")
        found = cls(int(words[2]), int(words[3]))
        if found.encode() != data or found.start > found.flushed:
            raise ValueError("not a checkpoint")
        return found


def read_checkpoint(files: IFileOperations, folder: str) -> Checkpoint | None:
    """Return a partition's checkpoint, None if it has none.

    Raises OSError; EmptyCheckpoint, which is a ValueError; ValueError when it is damaged.
    """
    data = read_file(files, join(folder, CHECKPOINT), _LIMIT)
    if data == b"":
        raise EmptyCheckpoint("it is empty, since a full disk did not take it")
    return None if data is None else Checkpoint.decode(data)


def write_checkpoint(files: IFileOperations, folder: str, checkpoint: Checkpoint) -> None:
    """Replace a partition's checkpoint; lasting on return. Blocks; raises OSError."""
    replace_file(files, folder, CHECKPOINT, checkpoint.encode())


def empty_checkpoint(files: IFileOperations, folder: str) -> None:
    """Say that the log begins with its oldest segment file, in no room at all. Blocks; raises OSError.

    Lasting on return where there was a checkpoint; else once the folder's names are synced.
    """
    path = join(folder, CHECKPOINT)
    file = files.open(path, create=not files.exists(path))
    try:
        file.truncate(0)
        file.sync_data()
    finally:
        file.close()
