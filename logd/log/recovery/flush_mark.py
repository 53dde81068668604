"""A partition's mark: up to where its last syncs came. Between two checkpoints it tells a torn tail from bit rot.

    logd-mark 1 <flushed, 20 digits> <crc, 8 hex digits>\\n        text; the crc is that of all that precedes it

Written over in place after every sync and never synced itself, so it costs a few microseconds on a thread that has just
waited for the disk. It says nothing until what it says is true, and it stays true: an older one is merely worth less,
and one that a loss of power tore counts as missing. So it is exact after the process was killed, and after a loss of
power as old as the kernel's writeback (half a minute). What lies before it was flushed: recovery neither reads nor cuts
it, whatever it looks like; what lies behind it was perhaps not, and is cut where it is not sound.
"""

from __future__ import annotations

from zlib import crc32

from attrs import define, evolve, field

from logd.interfaces import IFile, IFileOperations
from logd.log.disk.atomic import read_file
from logd.log.disk.names import MARK, join
from logd.log.recovery.checkpoint import Checkpoint, read_checkpoint

_LIMIT = 200


def encode_mark(flushed: int) -> bytes:
    """Return the file's content, always as long."""
    text = f"logd-mark 1 {flushed:020d} ".encode()
    return text + f"{crc32(text):08x}\n".encode()


def write_mark(files: IFileOperations, folder: str, flushed: int) -> None:
    """Say that all before ``flushed`` is on the disk. Any thread, one at a time. Never raises OSError: it is a hint."""
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
        """Let go of the file; ``write`` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self, path: str) -> IFile:
        try:
            return self._files.open(path)
        except FileNotFoundError:
            return self._files.open(path, create=True)


def read_mark(files: IFileOperations, folder: str) -> int:
    """Return up to where a partition is known to have been flushed, 0 when its mark is missing, torn or unreadable."""
    try:
        data = read_file(files, join(folder, MARK), _LIMIT)
    except OSError:
        return 0
    words = (data or b"").split()
    if len(words) != 4 or not words[2].isdigit() or encode_mark(int(words[2])) != data:
        return 0
    return int(words[2])


def remove_mark(files: IFileOperations, folder: str) -> None:
    """Take the mark away, lastingly. Raises OSError."""
    files.remove(join(folder, MARK))
    files.sync_directory(folder)


def read_flushed(files: IFileOperations, folder: str) -> Checkpoint | None:
    """Return a partition's checkpoint moved up to its mark, None when it has no checkpoint.

    Raises OSError; ValueError when the checkpoint is damaged.
    """
    checkpoint = read_checkpoint(files, folder)
    if checkpoint is None:
        return None
    return evolve(checkpoint, flushed=max(checkpoint.flushed, read_mark(files, folder)))
