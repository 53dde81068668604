"""Open files shared by everything that still needs them, and a bounded number of idle ones kept for the next reader."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from zope.interface import implementer

from logd.interfaces import IFile, IFileOperations, IFileRange


class SharedFile:
    """An open file that closes when the last holder lets go. Owner thread only."""

    __slots__ = ("_holders", "file")

    def __init__(self, file: IFile) -> None:
        self.file = file
        self._holders = 1

    def hold(self) -> None:
        """Count one holder more."""
        self._holders += 1

    def release(self) -> None:
        """Count one holder less; the last one closes the file."""
        self._holders -= 1
        if not self._holders:
            self.file.close()


class ReadLog(Protocol):
    """The log that a range is of, as far as it is needed here."""

    def cannot_read(self, position: int, error: OSError) -> None:
        """A read at ``position`` failed."""
        ...


@implementer(IFileRange)
class FileRange:
    """Bytes of one segment on their way out. ``close`` lets go of the file, exactly once; owner thread only."""

    __slots__ = ("_base", "_log", "_shared", "count", "file", "position")

    def __init__(self, shared: SharedFile, position: int, count: int, log: ReadLog, base: int) -> None:
        """Take over one hold on ``shared`` that the caller has; ``base`` is the position of the file's first byte."""
        self.file = shared.file
        self._shared = shared
        self.position = position
        self.count = count
        self._log = log
        self._base = base

    def unreadable(self, position: int, error: OSError) -> None:
        """See IFileRange."""
        self._log.cannot_read(self._base + position, error)

    def close(self) -> None:
        """Let go of the file."""
        self._shared.release()


class OpenFiles:
    """Files open for reading, at most ``limit`` of them idle; the one not asked for the longest is closed first."""

    def __init__(self, files: IFileOperations, limit: int) -> None:
        self._files = files
        self._limit = max(1, limit)
        self._idle: OrderedDict[str, SharedFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._idle)

    def acquire(self, path: str, size: int = 0) -> SharedFile:
        """Return the file with one hold for the caller, who releases it.

        Raises OSError, also when it has to be opened and is shorter than ``size`` bytes.
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
        """Keep ``path`` no longer: its name is going away. Those who hold it go on."""
        shared = self._idle.pop(path, None)
        if shared is not None:
            shared.release()

    def close(self) -> None:
        """Forget them all."""
        while self._idle:
            self._idle.popitem()[1].release()
