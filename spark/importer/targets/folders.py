"""Folders inside a target, by names relative to it: what a compaction moves, and what an interrupted one left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

from logd.interfaces import IFileOperations


class TargetNotes(Protocol):
    """Small files of one target, hidden from its readers. Names are relative to it, with ``/``; every method blocks.

    Every method may raise OSError or TargetError.
    """

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none if it does not exist."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None if there is no such file."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write a small file and the folders above it, also over a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it. Harmless if there is none."""
        ...


class TargetFolders(TargetNotes, Protocol):
    """Folders and files of one target. There are two kinds: for local file systems and for Hadoop's."""

    def make(self, folder: str) -> None:
        """Create a folder and those above it. Harmless if it exists."""
        ...

    def move(self, source: str, target: str) -> None:
        """Move a folder or file in one atomic step; on return it survives a loss of power.

        Raises FileNotFoundError if the source, or the folder that would hold the target, does not exist, and
        FileExistsError if the target does. Then nothing is changed.
        """
        ...


class LocalFolders:
    """See TargetFolders. The lock of LocalTarget keeps others out, so looking before a move is enough."""

    def __init__(self, root: Path, files: IFileOperations) -> None:
        self._root = root
        self._files = files

    def names(self, folder: str) -> list[str]:
        """See TargetFolders."""
        try:
            return sorted(os.listdir(self._root / folder))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        """See TargetFolders."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def make(self, folder: str) -> None:
        """See TargetFolders."""
        (self._root / folder).mkdir(parents=True, exist_ok=True)
        self._files.sync_directory(str((self._root / folder).parent))

    def put(self, name: str, content: bytes) -> None:
        """See TargetFolders."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written = self._files.open_for_reading(str(path))
        try:
            written.sync_data()
        finally:
            written.close()
        for folder in (path.parent, path.parent.parent):
            self._files.sync_directory(str(folder))

    def move(self, source: str, target: str) -> None:
        """See TargetFolders."""
        before, after = self._root / source, self._root / target
        if os.path.lexists(after):
            raise FileExistsError(f"{after} exists already")
        self._files.rename(str(before), str(after))
        for folder in {after.parent, before.parent}:
            self._files.sync_directory(str(folder))

    def remove(self, name: str) -> None:
        """See TargetFolders."""
        path = self._root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class HadoopFolders:
    """See TargetFolders. ``jvm`` is py4j's view of Spark's, ``translated`` converts Java's exceptions."""

    def __init__(self, location: str, jvm: Any, files: Any, rename: Any, translated: Any) -> None:
        self._location = location
        self._jvm = jvm
        self._files = files
        self._rename = rename
        self._translated = translated

    def names(self, folder: str) -> list[str]:
        """See TargetFolders."""
        try:
            with self._translated:
                found = list(self._files.listStatus(self._path(folder)))
        except FileNotFoundError:
            return []
        return sorted(str(each.getPath().getName()) for each in found)

    def read(self, name: str) -> bytes | None:
        """See TargetFolders."""
        try:
            with self._translated:
                stream = self._files.open(self._path(name))
                try:
                    return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
                finally:
                    stream.close()
        except FileNotFoundError:
            return None

    def make(self, folder: str) -> None:
        """See TargetFolders."""
        with self._translated:
            self._files.mkdirs(self._path(folder))

    def put(self, name: str, content: bytes) -> None:
        """See TargetFolders."""
        with self._translated:
            stream = self._files.create(self._path(name), True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()

    def move(self, source: str, target: str) -> None:
        """See TargetFolders."""
        with self._translated:
            self._rename(self._path(source), self._path(target))

    def remove(self, name: str) -> None:
        """See TargetFolders."""
        with self._translated:
            self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}".rstrip("/"))
