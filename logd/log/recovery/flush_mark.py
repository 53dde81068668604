"""A partition's flush mark: its flushed end after the last sync. It tells a torn tail from bit rot between checkpoints.

    logd-mark 1 <flushed, 20 digits> <crc, 8 hex digits>\\n        text; the crc is that of all that precedes it

The mark is overwritten in place after every sync and never synced itself, so it costs a few microseconds on a thread
that has just waited for the disk. It is written only after its number is true, and the number stays true: an older mark
is merely less useful, and one torn by a power loss counts as missing. So the mark is exact after a kill of the process,
and as old as the kernel's writeback (half a minute) after a power loss. Bytes before the mark were flushed: recovery
neither reads nor truncates them, even if they are damaged. Bytes behind it may not have been flushed, and are cut off
where they are not sound.
"""

from __future__ import annotations

from zlib import crc32

from attrs import define, field

from logd.interfaces import IFile, IFileOperations
from logd.log.disk.atomic import read_file
from logd.log.disk.names import MARK, join

_LIMIT = 200


def encode_mark(flushed: int) -> bytes:
    """Return the file's content, which always has the same length."""
    text = f"logd-mark 1 {flushed:020d} ".encode()
    return text + f"{crc32(text):08x}\n".encode()


def write_mark(files: IFileOperations, folder: str, flushed: int) -> None:
    """Record that all bytes before ``flushed`` are on the disk. Any thread, one at a time. Never raises OSError."""
    mark = Mark(files, folder)
    mark.write(flushed)
    mark.close()


@define(eq=False)
class Mark:
    """The mark of one folder; its file is open from the first ``write`` to ``close``. Any thread, one at a time."""

    _files: IFileOperations
    _folder: str
    _file: IFile | None = field(default=None, init=False)

    def write(self, flushed: int) -> None:
        """See write_mark."""
        try:
            if self._file is None:
                self._file = self._open(join(self._folder, MARK))
            self._file.write_at(0, encode_mark(flushed))
        except OSError:
            return

    def close(self) -> None:
        """Close the file; ``write`` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self, path: str) -> IFile:
        try:
            return self._files.open(path)
        except FileNotFoundError:
            return self._files.open(path, create=True)


def read_mark(files: IFileOperations, folder: str) -> int:
    """Return the flushed end in a partition's mark, 0 if the mark is missing, torn or unreadable."""
    try:
        data = read_file(files, join(folder, MARK), _LIMIT)
    except OSError:
        return 0
    words = (data or b"").split()
    if len(words) != 4 or not words[2].isdigit() or encode_mark(int(words[2])) != data:
        return 0
    return int(words[2])
