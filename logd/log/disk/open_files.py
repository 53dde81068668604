"""Open files that are shared by their holders, and a bounded number of idle ones kept for the next reader."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from zope.interface import implementer

from logd.interfaces import IFile, IFileOperations, IFileRange

if TYPE_CHECKING:  # makes file ranges
    from logd.log.partition import PartitionLog


class SharedFile:
    """An open file that is closed when its last holder releases it. Owner thread only."""

    __slots__ = ("_holders", "file")

    def __init__(self, file: IFile) -> None:
        self.file = file
        self._holders = 1

    def hold(self) -> None:
        """Add a holder."""
        self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one closes the file."""
        self._holders -= 1
        if not self._holders:
            self.file.close()


@implementer(IFileRange)
class FileRange:
    """A range of one segment's bytes that is to be sent. ``close`` releases the file, once. Owner thread only."""

    __slots__ = ("_base", "_log", "_shared", "count", "file", "file_position")

    def __init__(self, shared: SharedFile, file_position: int, count: int, log: PartitionLog, base: int) -> None:
        """Take over the caller's hold on ``shared``; ``base`` is the log position of the file's first byte."""
        self.file = shared.file
        self._shared = shared
        self.file_position = file_position
        self.count = count
        self._log = log
        self._base = base

    @property
    def position(self) -> int:
        """The log position of the first byte."""
        return self._base + self.file_position

    def part(self, position: int, count: int) -> FileRange:
        """Return another range of the same file, from this log position on. Both have to be closed."""
        self._shared.hold()
        return FileRange(self._shared, position - self._base, count, self._log, self._base)

    def unreadable(self, file_position: int, error: OSError) -> None:
        """See IFileRange."""
        self._log.cannot_read(self._base + file_position, error)

    def close(self) -> None:
        """Release the file."""
        self._shared.release()


class OpenFiles:
    """Files open for reading, of which at most ``limit`` are idle; the least recently used one is closed first."""

    def __init__(self, files: IFileOperations, limit: int) -> None:
        self._files = files
        self._limit = max(1, limit)
        self._idle: OrderedDict[str, SharedFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._idle)

    def acquire(self, path: str, size: int = 0) -> SharedFile:
        """Return the file with one hold for the caller to release.

        Raises OSError, also if the file has to be opened and is shorter than ``size`` bytes.
        """
        shared = self._idle.get(path)
        if shared is None:
            shared = self._idle[path] = SharedFile(self._open(path, size))
            while len(self._idle) > self._limit:
                self._idle.popitem(last=False)[1].release()
        else:
            self._idle.move_to_end(path)
        shared.hold()
        return shared

    def _open(self, path: str, size: int) -> IFile:
        file = self._files.open_for_reading(path)
        try:
            file.require(size)
        except OSError:
            file.close()
            raise
        return file

    def forget(self, path: str) -> None:
        """Drop ``path``, because its name is going to be removed; holders keep their open file."""
        shared = self._idle.pop(path, None)
        if shared is not None:
            shared.release()

    def close(self) -> None:
        """Drop all files."""
        while self._idle:
            self._idle.popitem()[1].release()
