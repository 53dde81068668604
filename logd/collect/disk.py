"""The file system of this machine, as ``files.Files``."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from attrs import frozen

from logd.collect.files import OpenFile, Seen

#: O_NONBLOCK: what was a file when it was found may be a pipe without a writer when it is opened.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _seen(path: str, status: os.stat_result) -> Seen:
    return Seen(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@frozen
class LocalOpenFile:
    """A descriptor open for reading."""

    path: str
    descriptor: int

    def seen(self) -> Seen:
        """What fstat says."""
        return _seen(self.path, os.fstat(self.descriptor))

    def read(self, position: int, count: int) -> bytes:
        """One pread: of a regular file it is short at the end alone."""
        return os.pread(self.descriptor, count, position)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Disk:
    """The local file system."""

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """See Files. A pattern is that of the shell; ``**`` matches folders of any depth."""
        paths: set[str] = set()
        for pattern in patterns:
            # A name with a bracket in it is a name first, and only then a pattern.
            paths.update([pattern] if os.path.lexists(pattern) else glob.iglob(pattern, recursive=True))
        return list(_regular(sorted(paths)))

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen]:
        """See Files: only what is wanted costs a stat."""
        try:
            with os.scandir(folder or ".") as entries:
                paths = [entry.path if folder else entry.name for entry in entries if wanted(entry.name, entry.inode())]
        except OSError:
            return []
        return list(_regular(sorted(paths)))

    def open(self, path: str) -> OpenFile:
        """See Files."""
        return LocalOpenFile(path, os.open(path, _FLAGS))


def _regular(paths: Sequence[str]) -> Iterator[Seen]:
    for path in paths:
        with suppress(OSError):  # gone since it was listed, or a link to nowhere
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                yield _seen(path, status)
