"""The part of a file system that following files needs; tests have their own implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

#: Device and inode: unchanged by a rename, and possibly reused for another file after a removal.
Identity = tuple[int, int]


class Seen(NamedTuple):
    """The state of a regular file found at a path."""

    path: str
    device: int
    inode: int
    #: Bytes.
    size: int
    #: Time of the last change of the content, in ns since the epoch; compared for equality only.
    modified: int

    @property
    def identity(self) -> Identity:
        """Device and inode."""
        return self.device, self.inode


class OpenFile(Protocol):
    """A file open for reading, which stays readable when its name is removed."""

    def seen(self) -> Seen:
        """Return the file's current state, with the path under which it was opened. Raises OSError."""
        ...

    def read(self, position: int, count: int) -> bytes:
        """Return up to ``count`` bytes at ``position``; fewer only at the end of the file. Raises OSError."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """The file system. Calls may block on the disk."""

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """Return the regular files that match a pattern, sorted by path; a file with two names is listed twice."""
        ...

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen] | None:
        """Return the regular files of a folder for which ``wanted(name, inode)``; none when there is no such folder.

        None means that the folder cannot be listed: no permission, no descriptors left, a disk that fails.
        """
        ...

    def at(self, path: str) -> Seen:
        """Return the regular file at a path. Raises OSError, FileNotFoundError also if it is no regular file."""
        ...

    def open(self, path: str) -> OpenFile:
        """Open a file for reading. Raises OSError."""
        ...
