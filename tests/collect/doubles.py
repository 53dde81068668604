"""A file system in memory for following files: names, inodes that are reused, open files without a name."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from os.path import basename, dirname

from attrs import define, field

from logd.collect.files import OpenFile, Seen

DEVICE = 7


@define(eq=False)
class Node:
    """A file's content, whatever its names."""

    inode: int
    data: bytearray = field(factory=bytearray)
    modified: int = 0
    names: int = 0
    opened: int = 0


@define(eq=False)
class MemoryOpenFile:
    """An open file."""

    disk: MemoryDisk
    path: str
    node: Node
    closed: bool = False

    def seen(self) -> Seen:
        """Return the file's state, as OpenFile does."""
        assert not self.closed
        return self.disk.seen(self.path, self.node)

    def read(self, position: int, count: int) -> bytes:
        """Read at a position, as OpenFile does."""
        assert not self.closed and position >= 0 and count >= 0
        return bytes(self.node.data[position : position + count])

    def close(self) -> None:
        """Close the file, which must happen once."""
        assert not self.closed
        self.closed = True
        self.node.opened -= 1
        self.disk.release(self.node)


@define
class MemoryDisk:
    """A disk as Files has it. A free inode is the next one to be used, as on ext4."""

    names: dict[str, Node] = field(factory=dict)
    handles: list[MemoryOpenFile] = field(factory=list)
    #: Paths that may not be opened.
    denied: set[str] = field(factory=set)
    #: The reason why no folder can be listed and no path looked up, if that is so.
    hidden: OSError | None = None
    #: True while no folder can be listed, though every path can be looked up.
    unlisted: bool = False
    #: The number of attempts to open a file.
    openings: int = 0
    _free: list[int] = field(factory=list)
    _next: int = 100
    _time: int = 0

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """Return the files that match, as Files does; here ``*`` matches slashes too."""
        return [
            self.seen(path, node)
            for path, node in sorted(self.names.items())
            if self.hidden is None
            and any(path == pattern or (not self.unlisted and fnmatchcase(path, pattern)) for pattern in patterns)
        ]

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen] | None:
        """Return the wanted files of a folder, as Files does."""
        if self.unlisted or self.hidden is not None:
            return None
        return [
            self.seen(path, node)
            for path, node in sorted(self.names.items())
            if dirname(path) == folder and wanted(basename(path), node.inode)
        ]

    def at(self, path: str) -> Seen:
        """Return the file at a path, as Files does."""
        if self.hidden is not None:
            raise self.hidden
        if path not in self.names:
            raise FileNotFoundError(2, "No such file or directory")
        return self.seen(path, self.names[path])

    def open(self, path: str) -> OpenFile:
        """Open a file, as Files does; raise OSError if it is denied or missing."""
        self.openings += 1
        if self.hidden is not None:
            raise self.hidden
        if path in self.denied:
            raise PermissionError(13, "Permission denied")
        node = self.names.get(path)
        if node is None:
            raise FileNotFoundError(2, "No such file or directory")
        node.opened += 1
        self.handles = [handle for handle in self.handles if not handle.closed]
        self.handles.append(MemoryOpenFile(self, path, node))
        return self.handles[-1]

    @property
    def open_now(self) -> int:
        """The number of open files."""
        return sum(not handle.closed for handle in self.handles)

    def crash(self) -> None:
        """Close every file, as the end of a process does."""
        for handle in self.handles:
            if not handle.closed:
                handle.close()

    def seen(self, path: str, node: Node) -> Seen:
        """Return the state of a node at a path."""
        return Seen(path, DEVICE, node.inode, len(node.data), node.modified)

    def release(self, node: Node) -> None:
        """Free an inode that has neither a name nor an open file."""
        if not node.names and not node.opened:
            self._free.append(node.inode)

    def create(self, path: str) -> Node:
        """Make an empty file, in place of one that is there."""
        self.remove(path)
        if self._free:
            inode = self._free.pop()
        else:
            self._next += 1
            inode = self._next
        node = self.names[path] = Node(inode, names=1)
        self._touch(node)
        return node

    def append(self, path: str, data: bytes) -> None:
        """Write at the end; make the file if it is not there."""
        node = self.names.get(path) or self.create(path)
        node.data += data
        self._touch(node)

    def remove(self, path: str) -> None:
        """Take a name away, if it is there."""
        node = self.names.pop(path, None)
        if node is not None:
            node.names -= 1
            self.release(node)

    def rename(self, source: str, target: str) -> None:
        """Rename as rename(2) does: a file at the target is replaced."""
        node = self.names.pop(source)
        self.remove(target)
        self.names[target] = node

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        self.names[target] = self.names[source]
        self.names[target].names += 1

    def compress(self, path: str, ending: str = ".gz") -> None:
        """Replace a file as gzip does: by one of another inode with the same time."""
        node = self.names[path]
        packed = self.create(path + ending)
        packed.data += gzip.compress(bytes(node.data), mtime=0)
        packed.modified = node.modified
        self.remove(path)

    def truncate(self, path: str) -> None:
        """Empty a file."""
        node = self.names[path]
        node.data.clear()
        self._touch(node)

    def copy(self, source: str, target: str, count: int | None = None) -> None:
        """Copy a file, or its first bytes, into one of a new inode (or further into one that is there)."""
        if target not in self.names or count is None:
            self.create(target)
        node = self.names[target]
        node.data[:] = self.names[source].data[:count]
        self._touch(node)

    def fill(self, source: str, target: str) -> None:
        """Complete the copy of a file, which keeps its inode."""
        node = self.names[target]
        node.data[:] = self.names[source].data
        self._touch(node)

    def _touch(self, node: Node) -> None:
        self._time += 1
        node.modified = self._time
