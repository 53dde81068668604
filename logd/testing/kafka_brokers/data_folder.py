"""Folders for the data of brokers that nobody needs after the test: in memory where that is possible."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

from logd.interfaces import IFileSystem
from logd.log.disk.local_files import LocalFile, LocalFiles

#: Linux's file system in memory, and the free bytes below which it is not used: containers often have 64 MB of it.
MEMORY = "/dev/shm"
_LEAST_FREE_BYTES = 1 << 30
#: The beginning of the folders' names; the id of the process follows.
PREFIX = "logd-kafka-"


class UnflushedFile(LocalFile):
    """A file of which nothing is made durable."""

    __slots__ = ()

    def sync_data(self) -> None:
        """Do nothing."""

    def check_written(self) -> None:
        """Do nothing."""


class UnflushedFiles(LocalFiles):
    """The local disk without fdatasync and fsync: quick, and lost with the machine."""

    file_class = UnflushedFile

    def sync_directory(self, path: str) -> None:
        """Do nothing."""

    def file_system(self, path: str) -> IFileSystem | None:
        """Return None: see IFileOperations."""
        return None


class DataFolder:
    """A new folder, removed by ``remove``, or at the process's end if that is not called. SIGKILL leaves it behind."""

    def __init__(self, memory: str = MEMORY) -> None:
        """``memory``: a file system in memory, which is used if it is there and has room."""
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=memory if _has_room(memory) else None)
        self._removal = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Remove the folder with all files. A second call does nothing."""
        self._removal()


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # the folder of a parent is not that of its forked child
        shutil.rmtree(path, ignore_errors=True)


def _has_room(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK) and found.f_bavail * found.f_frsize >= _LEAST_FREE_BYTES
