"""A whole file system in memory, which is synced at once and reports the failed writes of all its files."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Protocol

from attrs import define, field
from zope.interface import implementer

from logd.interfaces import IFileSystem
from logd.testing.memory.disk import Directory, Inode, PowerLoss


class SyncedDisk(Protocol):
    """The part of MemoryFiles that a file system needs."""

    root: Directory
    random: Random
    life: int
    fail_syncs: int
    dirty_bytes: int
    open_handles: int

    def maybe_fail(self, call: str, path: str) -> None: ...

    def sync_site(self, kind: str, path: str) -> bool: ...

    def device(self, path: str) -> int: ...


@implementer(IFileSystem)
@define(eq=False)
class MemoryFileSystem:
    """A file system of a MemoryFiles: all that is not below one of its other mounts, or all that is below one."""

    _files: SyncedDisk
    _path: str
    device: int = field(init=False)
    _life: int = field(init=False)
    #: The failed writes of all its files that ``sync`` has reported.
    _reported: int = field(init=False)
    closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.device, self._life = self._files.device(self._path), self._files.life
        self._reported = self._failures()
        self._files.open_handles += 1

    def sync(self) -> None:
        """See IFileSystem."""
        if self._life != self._files.life:
            raise PowerLoss
        if self.closed:
            raise ValueError(f"{self._path} is closed")
        self._files.maybe_fail("syncfs", self._path)
        if not self._files.sync_site("file system", self._path):
            return
        for path, node in self._nodes():
            if isinstance(node, Directory):
                node.sync()
            elif node.pending and self._files.fail_syncs and path.endswith(".log"):
                self._files.fail_syncs -= 1
                node.fail(self._files.random)
            else:
                node.sync()
        found = self._failures()
        if found != self._reported:
            self._reported = found
            raise OSError(errno.EIO, "input/output error", self._path)

    def dirty_bytes(self) -> int:
        """See IFileSystem."""
        return self._files.dirty_bytes

    def close(self) -> None:
        """See IFileSystem."""
        if not self.closed:
            self.closed = True
            if self._life == self._files.life:
                self._files.open_handles -= 1

    def _failures(self) -> int:
        """Return the number of failed writes of its files."""
        return sum([node.failures for _, node in self._nodes() if isinstance(node, Inode)])

    def _nodes(self) -> Iterator[tuple[str, Inode | Directory]]:
        """Yield every file and directory, with its path."""
        folders: deque[tuple[str, Directory]] = deque([("", self._files.root)])
        while folders:
            path, folder = folders.popleft()
            for name, node in [("", folder), *folder.names.items()]:
                if isinstance(node, Directory) and name:
                    folders.append((f"{path}/{name}", node))
                elif self._files.device(f"{path}/{name}") == self.device:
                    yield f"{path}/{name}", node
