"""The seam to the file system: the few things that following files needs of it, so that a test can be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

#: Device and inode: what a file keeps when it is renamed, and what another file may get once it is gone.
Identity = tuple[int, int]


class Seen(NamedTuple):
    """A regular file as it was found at a path."""

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
    """A file open for reading: it stays readable when its name is taken away."""

    def seen(self) -> Seen:
        """What the file is like now; the path is that of its opening. Raises OSError."""
        ...

    def read(self, position: int, count: int) -> bytes:
        """Up to ``count`` bytes at ``position``; fewer only at the end of the file. Raises OSError."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """The file system. Calls may wait for a disk."""

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """The regular files that match a pattern, sorted by path; one that is there under two names is in it twice."""
        ...

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen]:
        """The regular files of a folder for which ``wanted(name, inode)``; none when there is no such folder."""
        ...

    def open(self, path: str) -> OpenFile:
        """Open for reading. Raises OSError."""
        ...
