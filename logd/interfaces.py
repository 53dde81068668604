"""The seams between the floors: what comes into the log from outside, and what the log hands out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from logd.topic import TopicEntry

T = TypeVar("T")


class Timer(Protocol):
    """What ``Clock.callLater`` returns (Twisted's IDelayedCall has these)."""

    def cancel(self) -> None: ...

    def active(self) -> bool: ...


class Clock(Protocol):
    """Durations, in the shape of Twisted's IReactorTime: the reactor and ``task.Clock`` are both clocks as they are.

    The time of day is another matter, since it can be set: a function ``wall()`` returns seconds since the epoch where
    a time is stored, or compared with one that is stored.
    """

    def seconds(self) -> float:
        """Seconds since some moment. Only differences mean something."""
        ...

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> Timer:  # noqa: N802, A002
        """Call ``callable(*args)`` after ``delay`` seconds, on the thread that owns the log."""
        ...


class IThreads(Interface):
    """Where work runs that may wait for a disk. Everything else happens on one thread, the owner's (the reactor's)."""

    def run(work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run ``work()`` on another thread, then ``done(result, None)`` or ``done(None, error)`` on the owner's thread.

        Works start in the order of the calls. ``done`` is never called before ``run`` has returned.
        """


class IFile(Interface):
    """One open file. Every method may raise OSError."""

    path: str = Attribute("Where it was opened.")

    def append(buffers: Sequence[bytes]) -> int:
        """Write all buffers at the end, gathered into as few system calls as possible; return how many bytes that were.

        On an error (a full disk) some of the bytes may have been written: the caller truncates.
        """

    def write_at(position: int, data: bytes) -> None:
        """Overwrite ``data`` in place at ``position``."""

    def read_at(position: int, count: int) -> bytes:
        """Read up to ``count`` bytes at ``position``; fewer only at the end of the file. May wait for the disk."""

    def read_cached(position: int, count: int) -> bytes | None:
        """Like ``read_at``, but return None where the page cache does not have the bytes (never waits)."""

    def is_cached(position: int, count: int) -> bool:
        """Whether the last byte of that range is in the page cache, so that a ``sendfile`` of it does not wait."""

    def size() -> int:
        """The file's length in bytes."""

    def require(size: int) -> None:
        """Raise OSError when the file is shorter than ``size`` bytes, FileNotFoundError when it has no name left."""

    def truncate(size: int) -> None:
        """Cut the file to ``size`` bytes."""

    def sync_data() -> None:
        """fdatasync: afterwards the bytes, and the length that reaches them, survive a loss of power."""

    def drop_cache() -> None:
        """Ask the kernel to forget cached pages, so that the next reads see what the disk has."""

    def punch_hole(position: int, count: int) -> None:
        """Give the disk blocks of that range back; it then reads as zeros. Does nothing where it is not supported."""

    def fileno() -> int:
        """A descriptor for ``sendfile``; -1 where there is none (then bytes are read and written)."""

    def close() -> None:
        """Close; more than once is harmless."""


class IFileOperations(Interface):
    """Everything the log does to a disk goes through here, so that a test can lose what was not synced.

    Paths are absolute strings. Every method may raise OSError.
    """

    def open(path: str, create: bool = False) -> IFile:
        """Open for reading and appending; ``create`` makes a new empty file and fails if there is one already."""

    def open_for_reading(path: str) -> IFile:
        """Open for reading alone."""

    def list(path: str) -> list[str]:
        """Names in a directory, sorted."""

    def exists(path: str) -> bool:
        """Whether there is a file or directory."""

    def is_directory(path: str) -> bool:
        """Whether there is a directory of that name."""

    def size(path: str) -> int:
        """A file's length in bytes without opening it."""

    def modified(path: str) -> float:
        """A file's modification time, in seconds since the epoch."""

    def set_modified(path: str, seconds: float) -> None:
        """Set a file's modification time."""

    def make_directory(path: str) -> None:
        """Make a directory; its parent must be there. One that exists is an error (FileExistsError)."""

    def rename(source: str, target: str) -> None:
        """Rename, replacing ``target`` atomically. Lasting only after ``sync_directory``."""

    def remove(path: str) -> None:
        """Remove a file. Lasting only after ``sync_directory``."""

    def remove_directory(path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(path: str) -> None:
        """fsync a directory: afterwards names made, renamed and removed in it survive a loss of power."""

    def lock(path: str) -> IFile:
        """Create or open ``path`` and take an exclusive lock that ends with ``close`` or the process.

        Raises BlockingIOError when another process has it.
        """

    def free_bytes(path: str) -> int:
        """Room left on the file system that holds ``path``."""


class IFileRange(Interface):
    """Bytes of a segment that are to be delivered; keeps the file open, even when retention removes its name."""

    position: int = Attribute("Where the bytes begin in the file.")
    count: int = Attribute("How many there are.")
    file: Any = Attribute("The IFile.")

    def unreadable(position: int, error: OSError) -> None:
        """Say that reading the file at ``position`` failed, so that the next answers stop short of it."""

    def close() -> None:
        """Let go of the file; call exactly once, when the bytes are sent or will not be."""


class IFlushListener(Interface):
    """Something that waits until a partition's visible end has passed a position."""

    def visible(end: int) -> None:
        """The visible end is now ``end``."""

    def failed(error: BaseException) -> None:
        """The partition went offline; its visible end will not move."""


class ITopics(Interface):
    """The topics as they are known at this moment; nothing here waits."""

    def names() -> list[str]:
        """Return all topics, sorted."""

    def get(topic: str) -> TopicEntry | None:
        """Return a topic's entry, None for a topic that is not known."""

    def problem(topic: str) -> str | None:
        """Return why a topic that is known cannot be used, None when it can."""
