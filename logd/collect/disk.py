"""The file system of this machine, as ``files.Files``."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from attrs import frozen

from logd.collect.files import OpenFile, Seen

#: O_NONBLOCK: the path of a regular file may have become a pipe without a writer when it is opened.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _seen(path: str, status: os.stat_result) -> Seen:
    return Seen(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@frozen
class LocalOpenFile:
    """A descriptor open for reading."""

    path: str
    descriptor: int

    def seen(self) -> Seen:
        """Return the file's current state, by fstat."""
        return _seen(self.path, os.fstat(self.descriptor))

    def read(self, position: int, count: int) -> bytes:
        """Read with one pread, which is short only at the end of a regular file."""
        return os.pread(self.descriptor, count, position)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Disk:
    """The local file system."""

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """Implement ``Files.find`` with shell patterns; ``**`` matches folders of any depth."""
        paths: set[str] = set()
        for pattern in patterns:
            # An existing name that contains a bracket is a name, not a pattern.
            paths.update([pattern] if os.path.lexists(pattern) else glob.iglob(pattern, recursive=True))
        return list(_regular(sorted(paths)))

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen]:
        """Implement ``Files.in_folder``; only wanted files cost a stat."""
        try:
            with os.scandir(folder or ".") as entries:
                paths = [entry.path if folder else entry.name for entry in entries if wanted(entry.name, entry.inode())]
        except OSError:
            return []
        return list(_regular(sorted(paths)))

    def at(self, path: str) -> Seen:
        """Implement ``Files.at``."""
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise FileNotFoundError(error.errno, error.strerror, path) from None
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file", path)
        return _seen(path, status)

    def open(self, path: str) -> OpenFile:
        """Implement ``Files.open``."""
        return LocalOpenFile(path, os.open(path, _FLAGS))


def _regular(paths: Sequence[str]) -> Iterator[Seen]:
    for path in paths:
        with suppress(OSError):  # gone since it was listed, or a link to nowhere
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                yield _seen(path, status)
