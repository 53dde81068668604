"""File operations in memory that lose and tear unsynced data, fail on demand, and record the callers of syncs."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import define, field
from zope.interface import implementer

from logd.interfaces import IFile, IFileOperations, IFileSystem
from logd.testing.memory.disk import LARGEST_FILE, Directory, Inode, PowerLoss, apply_change
from logd.testing.memory.file_system import MemoryFileSystem


@implementer(IFile)
class MemoryFile:
    """An open file of a MemoryFiles."""

    def __init__(self, files: MemoryFiles, path: str, inode: Inode, writable: bool = True) -> None:
        self.path = path
        self.inode = inode
        self._files = files
        self._life = files.life
        self._writable = writable
        self.closed = False
        self._failures = inode.failures
        self.device = files.device(path)
        files.open_handles += 1

    def append(self, buffers: Sequence[bytes | memoryview]) -> int:
        """See IFile. A full or failing disk takes a part; the process may be killed in the middle."""
        data = b"".join(buffers)
        try:
            self._change("append")
        except (PowerLoss, OSError):
            if self._life == self._files.life:
                self.inode.write(len(self.inode.data), data[: self._files.random.randint(0, len(data))])
            raise
        room = self._files.room
        if room is not None and len(data) > room:
            self.inode.write(len(self.inode.data), data[:room])
            self._files.room = 0
            raise OSError(errno.ENOSPC, "no space left on device")
        if room is not None:
            self._files.room = room - len(data)
        self.inode.write(len(self.inode.data), data)
        return len(data)

    def write_at(self, position: int, data: bytes) -> None:
        """See IFile."""
        self._change("write_at")
        self.inode.write(position, data)

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        self._check()
        self._files.maybe_fail("read_at", self.path)
        self._files.bytes_read += count
        return bytes(self.inode.data[position : position + count])

    def read_cached(self, position: int, count: int) -> bytes | None:
        """See IFile."""
        return None if self._files.cold() else self.read_at(position, count)

    def is_cached(self, position: int, count: int) -> bool:
        """See IFile."""
        return not self._files.cold()

    def size(self) -> int:
        """See IFile."""
        self._check()
        return len(self.inode.data)

    def require(self, size: int) -> None:
        """See IFile."""
        self._check()
        if not self._files.root.holds(self.inode):
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use", self.path)
        if len(self.inode.data) < size:
            raise OSError(
                errno.EIO, f"the file has {len(self.inode.data)} bytes, though {size} were written", self.path
            )

    def truncate(self, size: int) -> None:
        """See IFile."""
        self._change("truncate")
        if size > LARGEST_FILE:
            raise OSError(errno.EFBIG, "file too large", self.path)
        self.inode.truncate(size)

    def sync_data(self) -> None:
        """See IFile."""
        self._check()
        self._files.maybe_fail("sync_data", self.path)
        if self._files.sync_site("data", self.path):
            if self._files.fail_syncs and (".log" in self.path or "/changes." in self.path):
                self._files.fail_syncs -= 1
                self.inode.fail(self._files.random)
            self._report_failures()
            self.inode.sync()

    def check_written(self) -> None:
        """See IFile."""
        self._check()
        self._files.maybe_fail("check_written", self.path)
        self._report_failures()

    def _report_failures(self) -> None:
        """Raise the failure of a write, once for each open file, as Linux does."""
        if self._failures != self.inode.failures:
            self._failures = self.inode.failures
            raise OSError(errno.EIO, "input/output error", self.path)

    def drop_cache(self, position: int = 0, count: int = 0) -> None:
        """See IFile: clean pages are dropped, dirty ones stay."""
        self._check()
        if self._files.sync_site("drop", self.path) and self.inode.sync_failed:
            self.inode.data = bytearray(self.inode.disk)
            for change in self.inode.pending:
                apply_change(self.inode.data, change)
            self.inode.sync_failed = False

    def punch_hole(self, position: int, count: int) -> None:
        """See IFile."""
        self._change("punch_hole")
        self.inode.write(position, bytes(count))

    def fileno(self) -> int:
        """See IFile."""
        return -1

    def close(self) -> None:
        """See IFile."""
        if not self.closed:
            self.closed = True
            if self._life == self._files.life:
                self._files.open_handles -= 1
                if self._files.locks.pop(self, None):
                    self.inode.locked = False

    def _check(self) -> None:
        if self._life != self._files.life:
            raise PowerLoss
        if self.closed:
            raise ValueError(f"{self.path} is closed")

    def _change(self, call: str) -> None:
        self._check()
        if not self._writable:
            raise OSError(errno.EBADF, "open for reading only")
        self._files.step()
        self._files.maybe_fail(call, self.path)
        self.inode.modified = self._files.now()


@implementer(IFileOperations)
@define(eq=False)
class MemoryFiles:
    """A whole file system. Its root directory is always durable."""

    random: Random = field(factory=lambda: Random(0))
    now: Callable[[], float] = lambda: 0.0
    root: Directory = field(factory=Directory)
    #: Handles from before the last crash are dead.
    life: int = 0
    #: The power fails before this many further changes.
    power: int | None = None
    #: Returns whether the requested pages must be read from the disk, on a thread.
    cold: Callable[[], bool] = lambda: False
    #: The bytes that appends may still take; None: any number.
    room: int | None = None
    #: This many of the next syncs of segments fail.
    fail_syncs: int = 0
    #: The syncs that are left out, by the place in the code that asks for them; and all that were asked for.
    skipped: set[str] = field(factory=set)
    sites: set[str] = field(factory=set)
    #: The errors that a call ("open", or "open PATH") raises, one at each call.
    errors: dict[str, list[OSError]] = field(factory=dict)
    #: The call of this number, counted from 1, raises what ``fail_with`` returns (None: it does not fail).
    fail_at: int = 0
    fail_with: Callable[[str, str], OSError | None] = lambda call, path: None
    calls: int = 0
    #: True where a sync of the whole file system is offered.
    syncs_whole: bool = False
    #: The folders that are file systems of their own; the rest is one, of number 1.
    mounts: dict[str, int] = field(factory=dict)
    #: The bytes that all programs have to write, as the kernel tells.
    dirty_bytes: int = 0
    locks: dict[MemoryFile, bool] = field(factory=dict)
    open_handles: int = 0
    bytes_read: int = 0

    def restart(self, power_lost: bool) -> None:
        """Begin a new life after a crash: of the process alone, or of the machine with loss of all unsynced data."""
        self.life += 1
        self.power = None
        self.room = None
        self.fail_syncs = 0
        self.open_handles = 0
        for file in self.locks:
            file.inode.locked = False
        self.locks.clear()
        if power_lost:
            self.root.lose(self.random)

    def step(self) -> None:
        """Count a change."""
        if self.power is not None:
            self.power -= 1
            if self.power <= 0:
                self.power = 0
                raise PowerLoss

    def sync_site(self, kind: str, path: str) -> bool:
        """KafkaRecord the caller of a sync; return whether it is to be done."""
        self.step()
        frame: Any = sys._getframe(2)
        site = f"{kind} in {frame.f_globals['__name__'].removeprefix('logd.log.')}.{frame.f_code.co_name}"
        if site == "data in flush_task.run":
            folder, _, name = path.rpartition("/")
            site += " of the " + (
                "last"
                if name == max((n for n in self._directory(folder).names if n[-4:] == ".log"), default="")
                else "rolled"
            )
        elif site == "directory in flush_task.run":
            site += " of the " + ("partition" if path.count("/") > 1 else "data directory")
        elif site.endswith("atomic.replace_file"):
            site += " of topics.json" if kind == "data" and "topics" in path else ""
        self.sites.add(site)
        return site not in self.skipped

    def durable(self, path: str) -> bytes | None:
        """Return what would certainly survive a loss of power now; None if perhaps not even the file's name would."""
        node: Inode | Directory | None = self.root
        for name in path.strip("/").split("/"):
            assert isinstance(node, Directory)
            node = node.disk.get(name) if node is not self.root else node.names.get(name)
            if node is None:
                return None
        assert isinstance(node, Inode)
        return node.disk

    def open(self, path: str, create: bool = False) -> IFile:
        """See IFileOperations."""
        self.maybe_fail("open", path)
        directory, name = self._parent(path)
        if create:
            self.maybe_fail("create", path)
            if name in directory.names:
                raise FileExistsError(errno.EEXIST, "exists", path)
            self.step()
            directory.change((), {name: Inode(modified=self.now())})
        return MemoryFile(self, path, self._inode(path))

    def open_for_reading(self, path: str) -> IFile:
        """See IFileOperations."""
        self.maybe_fail("open_for_reading", path)
        return MemoryFile(self, path, self._inode(path), writable=False)

    def list(self, path: str) -> list[str]:
        """See IFileOperations."""
        self.maybe_fail("list", path)
        return sorted(self._directory(path).names)

    def exists(self, path: str) -> bool:
        """See IFileOperations."""
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def is_directory(self, path: str) -> bool:
        """See IFileOperations."""
        return self.exists(path) and isinstance(self._node(path), Directory)

    def size(self, path: str) -> int:
        """See IFileOperations."""
        return len(self._inode(path).data)

    def modified(self, path: str) -> float:
        """See IFileOperations."""
        return self._inode(path).modified

    def set_modified(self, path: str, seconds: float) -> None:
        """See IFileOperations."""
        self._inode(path).modified = seconds

    def make_directory(self, path: str) -> None:
        """See IFileOperations."""
        self.maybe_fail("make_directory", path)
        directory, name = self._parent(path)
        if name in directory.names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self.step()
        directory.change((), {name: Directory()})

    def rename(self, source: str, target: str) -> None:
        """See IFileOperations; within one directory."""
        self.maybe_fail("rename", source)
        directory, name = self._parent(source)
        other, new_name = self._parent(target)
        assert directory is other
        node = self._node(source)
        self.step()
        directory.change((name,), {new_name: node})

    def remove(self, path: str) -> None:
        """See IFileOperations."""
        self.maybe_fail("remove", path)
        if self.room is not None:
            self.room += len(self._inode(path).data)
        directory, name = self._parent(path)
        self.step()
        directory.change((name,), {})

    def remove_directory(self, path: str) -> None:
        """See IFileOperations."""
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        directory, name = self._parent(path)
        self.step()
        directory.change((name,), {})

    def sync_directory(self, path: str) -> None:
        """See IFileOperations."""
        self.maybe_fail("sync_directory", path)
        directory = self._directory(path)
        if self.sync_site("directory", path):
            directory.sync()

    def lock(self, path: str) -> IFile:
        """See IFileOperations."""
        self.maybe_fail("lock", path)
        file = self.open(path, create=not self.exists(path))
        assert isinstance(file, MemoryFile)
        if file.inode.locked:
            file.close()
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        file.inode.locked = self.locks[file] = True
        return file

    def free_bytes(self, path: str) -> int:
        """See IFileOperations."""
        return 1 << 40 if self.room is None else self.room

    def device(self, path: str) -> int:
        """See IFileOperations."""
        return next((number for mount, number in self.mounts.items() if f"{path}/".startswith(f"{mount}/")), 1)

    def file_system(self, path: str) -> IFileSystem | None:
        """See IFileOperations."""
        return MemoryFileSystem(self, path) if self.syncs_whole else None

    def maybe_fail(self, call: str, path: str) -> None:
        """Raise the error that is due for ``call``."""
        self.calls += 1
        if self.calls == self.fail_at:
            error = self.fail_with(call, path)
            if error is not None:
                raise error
        for key in (call, f"{call} {path}"):
            if self.errors.get(key):
                raise self.errors[key].pop(0)

    def _node(self, path: str) -> Inode | Directory:
        node: Inode | Directory = self.root
        for name in path.strip("/").split("/"):
            if not name:
                continue
            if not isinstance(node, Directory) or name not in node.names:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
            node = node.names[name]
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        folder, _, name = path.rpartition("/")
        return self._directory(folder), name
