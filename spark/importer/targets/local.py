"""A target on a local file system: a lock file, fsync of all written files, and one os.rename.

Hadoop's own rename on file:// checks first and renames then, and may fall back to copying. rename(2) is one step, and
refuses an existing folder that is not empty. The lock admits one import of a machine at a time and ends with its
holder, so everything in the staging folder belongs to dead imports while we hold the lock. On a file system without
locks (some network mounts) only the rename decides, and only old files are cleaned up.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from logd.interfaces import IFile, IFileOperations
from logd.log.disk.local_files import LocalFiles
from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.folders import LocalFolders, TargetNotes
from logd.spark.importer.targets.layout import LOCK, OFFSETS, STAGING, run_name, run_number

#: Without a lock, seconds since the last change of a staged run after which its import counts as dead.
_STALE_SECONDS = 24 * 60 * 60.0
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def check_exists(path: str) -> None:
    """Raise TargetError unless there is a directory to check or to compact: a wrong path is not a target in order."""
    if not os.path.exists(path):
        raise TargetError(f"{path}: there is no such directory: check its name, or import into it first")


class LocalTarget:
    """See Target."""

    def __init__(self, path: str, files: IFileOperations | None = None) -> None:
        """Use the directory ``path``, which exists or is created by ``acquire``."""
        self._root = Path(os.path.abspath(path))
        self._files: IFileOperations = LocalFiles() if files is None else files
        self._lock: IFile | None = None
        self.folders = LocalFolders(self._root, self._files)
        if self._root.exists() and not self._root.is_dir():
            raise TargetError(f"{self._root} is not a directory")

    @property
    def location(self) -> str:
        """The absolute path of the directory."""
        return str(self._root)

    @property
    def notes(self) -> TargetNotes:
        """See Target."""
        return self.folders

    def runs(self) -> list[int]:
        """See Target."""
        if not self._root.exists():
            return []
        numbers = (run_number(name) for name in os.listdir(self._root))
        return sorted(number for number in numbers if number is not None)

    def read_offsets(self, run: int) -> bytes | None:
        """See Target."""
        try:
            return (self._root / run_name(run) / OFFSETS).read_bytes()
        except FileNotFoundError:
            return None

    def acquire(self) -> None:
        """See Target."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._lock = self._files.lock(str(self._root / LOCK))
        except BlockingIOError:
            raise RunLost(f"another import into {self._root} is running; this one left nothing behind") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise TargetError(f"cannot write into {self._root}: {error.strerror}") from None
        staging = self._root / STAGING
        try:
            staging.mkdir(exist_ok=True)
        except OSError as error:
            raise TargetError(f"cannot write into {self._root}: {STAGING}: {error.strerror}") from None
        if os.stat(staging).st_dev != os.stat(self._root).st_dev:
            raise TargetError(
                f"{staging} is on another file system than {self._root}: a run becomes visible by one rename, which "
                "cannot cross from one to the other; make it a plain folder"
            )

    def clean(self) -> list[str]:
        """See Target."""
        staging = self._root / STAGING
        removed = []
        for path in sorted(staging.iterdir()) if staging.exists() else ():
            if self._lock is not None or time.time() - _last_change(path) > _STALE_SECONDS:
                _remove(path)
                removed.append(str(path))
        return removed

    def staging(self, uuid: str) -> str:
        """See Target."""
        # With a scheme, so that it is on the local disk even if Spark's default is another file system. Not as_uri:
        # Hadoop takes %20 for three characters of a name, and would write beside the target.
        return f"file://{self._staged(uuid)}"

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """See Target."""
        # First the data, then their folders, then the rename: after a loss of power a visible run is complete.
        self._staged(uuid).mkdir(exist_ok=True)  # Spark creates it only if there is data
        self._staged(uuid).joinpath(OFFSETS).write_bytes(content)
        for folder, _, names in os.walk(self._staged(uuid), topdown=False):
            for name in names:
                self._sync_file(os.path.join(folder, name))
            self._files.sync_directory(folder)

    def rename(self, uuid: str, run: int) -> None:
        """See Target."""
        target = self._root / run_name(run)
        try:
            self._files.rename(str(self._staged(uuid)), str(target))
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(error.errno, "exists already", str(target)) from None
            raise
        self._files.sync_directory(str(self._root))
        self._files.sync_directory(str(self._root / STAGING))

    def discard(self, uuid: str) -> None:
        """See Target."""
        _remove(self._staged(uuid))

    def close(self) -> None:
        """See Target."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _sync_file(self, path: str) -> None:
        file = self._files.open_for_reading(path)
        try:
            file.sync_data()
        finally:
            file.close()

    def _staged(self, uuid: str) -> Path:
        return self._root / STAGING / uuid


def _last_change(path: Path) -> float:
    """Return the time of the latest change in a tree; the present time if the tree is removed meanwhile."""
    try:
        newest = path.lstat().st_mtime
    except FileNotFoundError:
        return time.time()
    for folder, _, names in os.walk(path):
        for name in (*names, "."):
            with suppress(FileNotFoundError):  # its import is alive, and has moved or removed it meanwhile
                newest = max(newest, os.lstat(os.path.join(folder, name)).st_mtime)
    return newest


def _remove(path: Path) -> None:
    """Remove a tree. If the JVM of a dead import still writes files into it, the next run removes the rest."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    except FileNotFoundError:
        pass
