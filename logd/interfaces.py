"""The interfaces between the layers: the log's dependencies, and the objects that the log hands out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    pass

T = TypeVar("T")


class Timer(Protocol):
    """The result of ``Clock.callLater``; Twisted's IDelayedCall has these methods."""

    def cancel(self) -> None: ...

    def active(self) -> bool: ...


class Clock(Protocol):
    """A clock for durations, a part of Twisted's IReactorTime: the reactor and ``task.Clock`` are such clocks.

    The time of day can be set, so it is separate: a function ``wall()`` returns seconds since the epoch, for times that
    are stored or compared with stored ones.
    """

    def seconds(self) -> float:
        """Return the seconds since an arbitrary moment. Only differences are meaningful."""
        ...

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> Timer:  # noqa: N802, A002
        """Call ``callable(*args)`` after ``delay`` seconds, on the thread that owns the log."""
        ...


class IThreads(Interface):
    """Threads for work that may wait for a disk. All else runs on one thread, the owner's (the reactor's)."""

    def run(work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run ``work()`` on another thread, then ``done(result, None)`` or ``done(None, error)`` on the owner's thread.

        Work starts in the order of the calls. ``done`` is never called before ``run`` has returned.
        """


class IFile(Interface):
    """One open file. Every method may raise OSError."""

    path: str = Attribute("The path at which the file was opened.")
    device: int = Attribute("The number of the file system that holds the file, as in IFileSystem.")

    def append(buffers: Sequence[bytes | memoryview]) -> int:
        """Write all buffers at the end in as few system calls as possible; return the number of bytes written.

        After an error, such as a full disk, some of the bytes may have been written: the caller truncates the file.
        """

    def write_at(position: int, data: bytes) -> None:
        """Overwrite the bytes at ``position`` with ``data``."""

    def read_at(position: int, count: int) -> bytes:
        """Read up to ``count`` bytes at ``position``; fewer only at the end of the file. May wait for the disk."""

    def read_cached(position: int, count: int) -> bytes | None:
        """Read like ``read_at``, but return None if the bytes are not in the page cache. Never waits."""

    def is_cached(position: int, count: int) -> bool:
        """Return whether the range's last byte is in the page cache, so that a ``sendfile`` of it does not wait."""

    def size() -> int:
        """Return the file's length in bytes."""

    def require(size: int) -> None:
        """Raise OSError if the file is shorter than ``size`` bytes, FileNotFoundError if its name was removed."""

    def truncate(size: int) -> None:
        """Truncate the file to ``size`` bytes."""

    def sync_data() -> None:
        """Call fdatasync: afterwards the bytes and the file's length survive a loss of power."""

    def check_written() -> None:
        """Raise OSError if the kernel failed to write bytes of this file since the last call or ``sync_data``.

        Waits for writes under way, begins none, and makes nothing durable: for use after ``IFileSystem.sync``.
        """

    def drop_cache(position: int = 0, count: int = 0) -> None:
        """Ask the kernel to drop cached pages, so that the next reads come from the disk: all, or those of a range.

        Pages that are not written yet stay. A ``count`` of 0 means up to the end of the file.
        """

    def punch_hole(position: int, count: int) -> None:
        """Free the disk blocks of the range, which then reads as zeros. Does nothing if that is not supported."""

    def fileno() -> int:
        """Return a descriptor for ``sendfile``; -1 if there is none, so that bytes are read and written."""

    def close() -> None:
        """Close the file. Further calls do nothing."""


class IFileSystem(Interface):
    """A whole file system, to sync many files of it at once. ``sync`` may be called on any thread, one at a time."""

    device: int = Attribute("The number of the file system, as stat(2) gives it in st_dev.")

    def sync() -> None:
        """Call syncfs: write what all programs have changed on this file system, and wait until it is durable.

        Raises OSError for a failed write of any file since the last call; that is reported once. Success does not vouch
        for a single file: see ``logd.log.flush_task.GroupTask``.
        """

    def dirty_bytes() -> int:
        """Return about how many bytes of all programs wait to be written, to any disk; 0 if that is not known."""

    def close() -> None:
        """Close the descriptor. Further calls do nothing."""


class IFileOperations(Interface):
    """The disk operations of the log, in one interface, so that a test can lose unsynced writes.

    Paths are absolute strings. Every method may raise OSError.
    """

    def open(path: str, create: bool = False) -> IFile:
        """Open for reading and appending. ``create`` creates an empty file, and fails if the file exists."""

    def open_for_reading(path: str) -> IFile:
        """Open for reading only."""

    def list(path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(path: str) -> bool:
        """Return whether the path is an existing file or directory."""

    def is_directory(path: str) -> bool:
        """Return whether the path is an existing directory."""

    def size(path: str) -> int:
        """Return a file's length in bytes without opening it."""

    def modified(path: str) -> float:
        """Return a file's modification time, in seconds since the epoch."""

    def set_modified(path: str, seconds: float) -> None:
        """Set a file's modification time."""

    def make_directory(path: str) -> None:
        """Create a directory; its parent has to exist. Raises FileExistsError if the directory exists."""

    def rename(source: str, target: str) -> None:
        """Rename, replacing ``target`` atomically. Durable only after ``sync_directory``."""

    def remove(path: str) -> None:
        """Remove a file. Durable only after ``sync_directory``."""

    def remove_directory(path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(path: str) -> None:
        """Call fsync on a directory: afterwards its new, renamed and removed names survive a loss of power."""

    def lock(path: str) -> IFile:
        """Create or open ``path`` and take an exclusive lock, which ends with ``close`` or with the process.

        Raises BlockingIOError if another process has the lock.
        """

    def free_bytes(path: str) -> int:
        """Return the free bytes of the file system that holds ``path``."""

    def device(path: str) -> int:
        """Return the number of the file system that holds ``path``."""

    def file_system(path: str) -> IFileSystem | None:
        """Return the file system that holds the directory ``path``, to be closed; None if a sync of it is no proof."""


class IFileRange(Interface):
    """A range of a segment's bytes to send. Keeps the file open, even if retention removes its name."""

    file_position: int = Attribute("The file position of the first byte.")
    count: int = Attribute("The number of bytes.")
    file: Any = Attribute("The IFile.")

    def unreadable(file_position: int, error: OSError) -> None:
        """Report a failed read at ``file_position``, so that later answers stop short of it."""

    def close() -> None:
        """Release the file. Call it exactly once, when the bytes are sent or will not be sent."""


class IFlushListener(Interface):
    """A listener that waits until a partition's visible end has passed a position."""

    def visible(end: int) -> None:
        """Called when the visible end has moved to ``end``."""

    def failed(error: BaseException) -> None:
        """Called when the partition went offline; its visible end will not move."""
