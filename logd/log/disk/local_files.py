"""Files and directories of a local disk. No other module calls the operating system's file functions."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import stat
from collections.abc import Sequence

from zope.interface import implementer

from logd.interfaces import IFile, IFileOperations, IFileSystem

#: Linux takes at most this many buffers in one call (IOV_MAX).
_BUFFERS_PER_CALL = 1024
#: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, from linux/falloc.h.
_PUNCH_HOLE = 0x01 | 0x02
#: Errors of preadv on file systems without RWF_NOWAIT (tmpfs, older kernels).
_NO_NOWAIT = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
#: The kernel drops only pages that lie wholly inside a range.
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: SYNC_FILE_RANGE_WAIT_BEFORE, from linux/fs.h.
_WAIT_BEFORE = 1
#: The first Linux whose syncfs(2) returns both a failed write of a file (5.8) and the file system's own failure (5.17).
_SYNCFS_REPORTS = (5, 17)
#: The file systems on which syncfs is known to make everything durable and to report failed writes. Others do not: FUSE
#: does not tell its server, overlayfs does not pass on the errors of the file system below, tmpfs has no disk.
_SYNCFS_FIT = frozenset({"ext4", "xfs"})
_C_LIBRARY = ctypes.CDLL(None, use_errno=True)
#: Messages may be read by their owner and by the files' group, not by every user of the machine.
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750


def _check_owner(directory: str) -> None:
    """Raise PermissionError unless the process's user owns the directory: another owner could replace its files."""
    owner, user = os.stat(directory).st_uid, os.geteuid()
    if owner != user:
        raise PermissionError(
            errno.EPERM, f"user {owner} owns it, and this process runs as user {user}: run it as the owner", directory
        )


@implementer(IFile)
class LocalFile:
    """One open file of a local disk. Appends go to the end that this object remembers: one writer at a time."""

    __slots__ = ("_descriptor", "_end", "device", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._end, self.device = found.st_size, found.st_dev

    def append(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Write all buffers at the end; see IFile."""
        # pwrite at a known end instead of O_APPEND: with O_APPEND, Linux ignores the position that write_at gives.
        start = self._end
        try:
            if len(buffers) == 1:
                total = len(buffers[0])
                written = os.pwrite(self._descriptor, buffers[0], start)
            else:
                total = sum(map(len, buffers))
                written = os.pwritev(self._descriptor, buffers[:_BUFFERS_PER_CALL], start)
            self._end = start + written
            if written != total:
                self._append_rest(buffers, written)
        except OSError as error:
            raise self._named(error) from None
        return total

    def _append_rest(self, buffers: Sequence[bytes | memoryview], written: int) -> None:
        """Write the rest of an append: too many buffers for one call, or a short write (the next call tells why)."""
        views = []
        for buffer in buffers:
            if written >= len(buffer):
                written -= len(buffer)
            else:
                views.append(memoryview(buffer)[written:])
                written = 0
        first = 0
        while first < len(views):
            count = os.pwritev(self._descriptor, views[first : first + _BUFFERS_PER_CALL], self._end)
            if count == 0:
                raise OSError(errno.EIO, "the file takes no more bytes", self.path)
            self._end += count
            while count:
                if count >= len(views[first]):
                    count -= len(views[first])
                    first += 1
                else:
                    views[first] = views[first][count:]
                    count = 0

    def write_at(self, position: int, data: bytes) -> None:
        """Overwrite in place; see IFile."""
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, position)
            position += count
            view = view[count:]
        self._end = max(self._end, position)

    def read_at(self, position: int, count: int) -> bytes:
        """Read up to ``count`` bytes; see IFile."""
        try:
            data = os.pread(self._descriptor, count, position)
            if len(data) == count or not data:
                return data
            pieces = [data]
            got = len(data)
            while got < count:  # a short read is the end of the file or a signal: the next read shows which
                data = os.pread(self._descriptor, count - got, position + got)
                if not data:
                    break
                pieces.append(data)
                got += len(data)
        except OSError as error:
            raise self._named(error) from None
        return b"".join(pieces)

    def read_cached(self, position: int, count: int) -> bytes | None:
        """Read without waiting for the disk; see IFile."""
        if _NOWAIT is None:
            return self.read_at(position, count)
        buffer = bytearray(count)
        try:
            got = os.preadv(self._descriptor, [buffer], position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                return self.read_at(position, count)
            raise
        if got == count:
            return bytes(buffer)
        # A short read: the file ends there, or the rest is only on the disk.
        return bytes(buffer[:got]) if position + got >= os.fstat(self._descriptor).st_size else None

    def is_cached(self, position: int, count: int) -> bool:
        """Return whether the last byte is in the page cache; see IFile."""
        if _NOWAIT is None or count <= 0:
            return True
        try:
            os.preadv(self._descriptor, [bytearray(1)], position + count - 1, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                return True
            raise
        return True

    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._descriptor).st_size

    def require(self, size: int) -> None:
        """See IFile. One fstat(2), about a microsecond."""
        found = os.fstat(self._descriptor)
        if not found.st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use", self.path)
        if found.st_size < size:
            raise OSError(errno.EIO, f"the file has {found.st_size} bytes, though {size} were written", self.path)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._named(error) from None
        self._end = size

    def sync_data(self) -> None:
        """Call fdatasync(2); see IFile."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise self._named(error) from None

    def check_written(self) -> None:
        """Call sync_file_range(2) to wait for all writes under way; see IFile."""
        whole_file = ctypes.c_int64(0)
        if _C_LIBRARY.sync_file_range(ctypes.c_int(self._descriptor), whole_file, whole_file, _WAIT_BEFORE):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), self.path)

    def drop_cache(self, position: int = 0, count: int = 0) -> None:
        """Call posix_fadvise(DONTNEED) for whole pages, those at the range's ends included; see IFile."""
        if hasattr(os, "posix_fadvise"):
            begin = position - position % _PAGE_BYTES
            size = -(-(position + count) // _PAGE_BYTES) * _PAGE_BYTES - begin if count else 0
            os.posix_fadvise(self._descriptor, begin, size, os.POSIX_FADV_DONTNEED)

    def punch_hole(self, position: int, count: int) -> None:
        """Call fallocate(PUNCH_HOLE); see IFile."""
        try:
            fallocate = _C_LIBRARY.fallocate
        except AttributeError:
            return  # the C library has no such function: the blocks stay allocated
        offset = ctypes.c_int64
        if fallocate(ctypes.c_int(self._descriptor), ctypes.c_int(_PUNCH_HOLE), offset(position), offset(count)):
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise OSError(code, os.strerror(code), self.path)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close; more than once is harmless."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _named(self, error: OSError) -> OSError:
        """Return the error with the file's path, which calls on a descriptor leave out."""
        error.filename = self.path
        return error


@implementer(IFileSystem)
class LocalFileSystem:
    """The file system of one directory. Its descriptor stays open, as errors are reported to it from its opening on."""

    __slots__ = ("_descriptor", "_path", "device")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self._descriptor).st_dev

    def sync(self) -> None:
        """Call syncfs(2); see IFileSystem."""
        if _C_LIBRARY.syncfs(ctypes.c_int(self._descriptor)):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), self._path)

    def dirty_bytes(self) -> int:
        """Read /proc/meminfo, about 50 microseconds; see IFileSystem."""
        try:
            with open("/proc/meminfo", encoding="ascii") as file:
                amounts = [line.split() for line in file if line.startswith(("Dirty:", "Writeback:"))]
        except OSError:
            return 0
        return sum(int(amount[1]) for amount in amounts) * 1024

    def close(self) -> None:
        """Close; more than once is harmless."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def is_syncfs_fit(device: int, system: str, release: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Return whether syncfs(2) of the file system ``device`` makes all durable and reports what it could not write."""
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    if system != "Linux" or version < _SYNCFS_REPORTS or not hasattr(_C_LIBRARY, "syncfs"):
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            # The number is the third word; the type comes after a dash that follows the optional words.
            kinds = {line.partition(" - ")[2].split()[0] for line in file if line.split()[2] == number}
    except (OSError, IndexError):
        return False
    return bool(kinds) and kinds <= _SYNCFS_FIT


@implementer(IFileOperations)
class LocalFiles:
    """The local disk."""

    #: The class of its files.
    file_class: type[LocalFile] = LocalFile

    def open(self, path: str, create: bool = False) -> IFile:
        """Open for reading and appending; see IFileOperations."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        return self.file_class(path, os.open(path, flags, FILE_MODE))

    def open_for_reading(self, path: str) -> IFile:
        """Open for reading alone."""
        return self.file_class(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """Return whether ``path`` is an existing directory."""
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symbolic link to itself
                return False
            raise

    def size(self, path: str) -> int:
        """A file's length in bytes."""
        return os.stat(path).st_size

    def modified(self, path: str) -> float:
        """A file's modification time, in seconds since the epoch."""
        return os.stat(path).st_mtime

    def set_modified(self, path: str, seconds: float) -> None:
        """Set a file's modification time."""
        os.utime(path, (seconds, seconds))

    def make_directory(self, path: str) -> None:
        """Make a directory; its parent must exist."""
        os.mkdir(path, DIRECTORY_MODE)

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing ``target`` atomically."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """fsync a directory."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> IFile:
        """Create or open ``path`` and lock it; see IFileOperations."""
        # Before anything is created: a file of this user in another user's directory would be in the owner's way.
        _check_owner(os.path.dirname(path) or ".")
        # If the name were a symbolic link, another file would be locked and truncated.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return LocalFile(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def free_bytes(self, path: str) -> int:
        """Bytes available to an ordinary user on that file system."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def device(self, path: str) -> int:
        """The number that stat(2) gives."""
        return os.stat(path).st_dev

    def file_system(self, path: str) -> IFileSystem | None:
        """The file system for syncfs(2), on ext4 and xfs of Linux 5.17 and later; see IFileOperations."""
        machine = os.uname()
        return LocalFileSystem(path) if is_syncfs_fit(self.device(path), machine.sysname, machine.release) else None
