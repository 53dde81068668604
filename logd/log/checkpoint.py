"""A partition's checkpoint: from where its log begins, and up to where all is known to be flushed and sound.

    logd-checkpoint 1 <start> <flushed> <crc, 8 hex digits>\\n        text; the crc is that of all that precedes it

The start is in it so that retention can remove files in any order: recovery does not miss what precedes it.
"""

from __future__ import annotations

from zlib import crc32

from attrs import frozen

from logd.interfaces import IFileOperations
from logd.log.atomic import read_file, replace_file
from logd.log.names import CHECKPOINT, join

_LIMIT = 200


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
    """Return a partition's checkpoint, None if it has none. Raises OSError; ValueError when it is damaged."""
    data = read_file(files, join(folder, CHECKPOINT), _LIMIT)
    return None if data is None else Checkpoint.decode(data)


def write_checkpoint(files: IFileOperations, folder: str, checkpoint: Checkpoint) -> None:
    """Replace a partition's checkpoint; lasting on return. Blocks; raises OSError."""
    replace_file(files, folder, CHECKPOINT, checkpoint.encode())
