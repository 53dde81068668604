"""A target on a file system of Hadoop (above all HDFS), by FileContext.rename through Spark's JVM.

FileSystem.rename moves the folder *into* an existing target. FileContext.rename with Options.Rename.NONE refuses that,
and on HDFS is one step of the name node. There are no locks: imports compete, and the rename decides.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from logd.spark.importer.errors import TargetError
from logd.spark.importer.targets.folders import HadoopFolders, TargetNotes
from logd.spark.importer.targets.hadoop_errors import in_one_sentence
from logd.spark.importer.targets.layout import OFFSETS, STAGING, run_name, run_number

#: File systems whose rename of a folder is one atomic step. Object stores copy file by file instead.
ATOMIC_SCHEMES = ("hdfs", "viewfs", "webhdfs", "abfs", "abfss", "file")
#: Seconds since the last change of a staged run after which its import counts as dead. Tasks write continuously.
STALE_SECONDS = 24 * 60 * 60.0


class HadoopTarget:
    """See Target. ``session`` is a SparkSession, whose configuration has the addresses of the file systems."""

    def __init__(self, location: str, session: Any, stale_seconds: float = STALE_SECONDS) -> None:
        """Raises TargetError for a file system on which no rename is atomic, or that Spark's jars do not have."""
        scheme = urlsplit(location).scheme
        if scheme not in ATOMIC_SCHEMES:
            raise TargetError(
                f"{location}: a run becomes visible by one rename of a folder, which is not atomic on {scheme}://; "
                f"allowed are {', '.join(each + '://' for each in ATOMIC_SCHEMES)}"
            )
        self._jvm = session._jvm
        self._gateway = session.sparkContext._gateway
        self._conf = session.sparkContext._jsc.hadoopConfiguration()
        self._location = location.rstrip("/")
        self._stale_seconds = stale_seconds
        version = str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        self._translated = _Translated(self._location, version)
        self._root = self._path(self._location)
        with self._translated:
            self._files = self._root.getFileSystem(self._conf)
        self.folders = HadoopFolders(self._location, self._jvm, self._files, self._rename, self._translated)

    @property
    def location(self) -> str:
        """The URI of the directory."""
        return self._location

    @property
    def notes(self) -> TargetNotes:
        """See Target."""
        return self.folders

    def runs(self) -> list[int]:
        """See Target."""
        numbers = (run_number(status.getPath().getName()) for status in self._list(self._root))
        return sorted(number for number in numbers if number is not None)

    def read_offsets(self, run: int) -> bytes | None:
        """See Target."""
        path = self._path(self._location, run_name(run), OFFSETS)
        try:
            with self._translated:
                stream = self._files.open(path)
                try:
                    return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
                finally:
                    stream.close()
        except FileNotFoundError:
            return None

    def acquire(self) -> None:
        """See Target; other imports are not kept out."""
        with self._translated:
            self._files.mkdirs(self._path(self._location, STAGING))

    def clean(self) -> list[str]:
        """See Target."""
        removed = []
        for status in self._list(self._path(self._location, STAGING)):
            if time.time() - self._last_change(status) > self._stale_seconds:
                with self._translated:
                    self._files.delete(status.getPath(), True)
                removed.append(str(status.getPath().toString()))
        return removed

    def staging(self, uuid: str) -> str:
        """See Target."""
        return f"{self._location}/{STAGING}/{uuid}"

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """See Target."""
        with self._translated:
            stream = self._files.create(self._path(self._location, STAGING, uuid, OFFSETS), False)
            try:
                stream.write(bytearray(content))
                stream.hsync()
            finally:
                stream.close()

    def rename(self, uuid: str, run: int) -> None:
        """See Target."""
        with self._translated:
            self._rename(self._path(self._location, STAGING, uuid), self._path(self._location, run_name(run)))

    def _rename(self, source: Any, target: Any) -> None:
        hadoop = self._jvm.org.apache.hadoop.fs
        how = self._gateway.new_array(hadoop.Options.Rename, 1)
        how[0] = getattr(hadoop.Options.Rename, "NONE")  # noqa: B009  # also a word of Python
        context = hadoop.FileContext.getFileContext(self._root.toUri(), self._conf)
        context.rename(source, target, how)

    def discard(self, uuid: str) -> None:
        """See Target."""
        with self._translated:
            self._files.delete(self._path(self._location, STAGING, uuid), True)

    def close(self) -> None:
        """See Target."""

    def _path(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join(parts))

    def _list(self, path: Any) -> list[Any]:
        try:
            with self._translated:
                return list(self._files.listStatus(path))
        except FileNotFoundError:  # it never existed, or another import has moved or removed it meanwhile
            return []

    def _last_change(self, status: Any) -> float:
        """Return the time of the latest change in a tree, in seconds since the epoch."""
        newest = float(status.getModificationTime()) / 1000
        if status.isDirectory():
            for each in self._list(status.getPath()):
                newest = max(newest, self._last_change(each))
        return newest


class _Translated:
    """Convert Java's exceptions about a location to the errors of Target."""

    def __init__(self, location: str, version: str) -> None:
        self._location = location
        self._version = version

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        thrown = getattr(error, "java_exception", None)
        if thrown is None:
            return
        name = str(thrown.getClass().getName())
        message = str(thrown.getMessage())
        if name.endswith("FileAlreadyExistsException"):
            raise FileExistsError(f"{name}: {message}") from None
        if name == "java.io.FileNotFoundException":
            raise FileNotFoundError(f"{name}: {message}") from None
        raise TargetError(in_one_sentence(self._location, name, message, self._version)) from error
