"""The files of the runs in an Iceberg table, on the file system that pyiceberg uses for it.

::

    LOCATION/data/logd-<uuid>/*.parquet     the files of one run, written by Spark and never moved
    LOCATION/_staging/<uuid>                an empty file while it is not known whether the run was committed
    LOCATION/_audit/<uuid>                  the counts of a run that are not published yet
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow.fs
import pyarrow.parquet
from pyiceberg.io.pyarrow import PyArrowFileIO

from logd.log.disk.local_files import LocalFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table


class TableFiles:
    """The files of a table's runs, on the file system that pyiceberg uses for it. Implements TargetNotes, too."""

    def __init__(self, table: Table) -> None:
        location = table.location().rstrip("/")
        scheme, host, self._root = PyArrowFileIO.parse_location(location)
        self._prefix = location.removesuffix(self._root)
        if self._prefix in ("", location):
            self._prefix = f"{scheme}://"
        self._local = scheme == "file"
        self._system: Any = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, host)

    def data(self, uuid: str) -> str:
        """Return the URI of a run's folder."""
        return self._prefix + self._folder(uuid)

    def mark(self, uuid: str) -> None:
        """Say that the run ``uuid`` is under way."""
        self._system.create_dir(f"{self._root}/_staging", recursive=True)
        self._system.open_output_stream(self._marker(uuid)).close()

    def unmark(self, uuid: str) -> None:
        """Remove the mark, if there is one."""
        with suppress(FileNotFoundError):
            self._system.delete_file(self._marker(uuid))

    def staged(self) -> list[str]:
        """Return the runs that are marked."""
        return sorted(each.base_name for each in self._under(f"{self._root}/_staging"))

    def last_change(self, uuid: str) -> float:
        """Return the time of the latest change of a marked run, in seconds since the epoch."""
        marker = self._system.get_file_info(self._marker(uuid))
        times = [each.mtime for each in (marker, *self._under(self._folder(uuid)))]
        return max((each.timestamp() for each in times if each is not None), default=time.time())

    def parquet(self, uuid: str) -> list[str]:
        """Return the URIs of the files that Spark has written for a run.

        Those below a hidden folder are of attempts at tasks that may still write, although others have taken their
        place.
        """
        folder = self._folder(uuid)
        files = [each for each in self._under(folder) if each.type == pyarrow.fs.FileType.File]
        within = {each.path: each.path.partition(f"{folder.rpartition('/')[2]}/")[2] for each in files}
        return sorted(
            self._prefix + path
            for path, rest in within.items()
            if path.endswith(".parquet") and not any(name.startswith(("_", ".")) for name in rest.split("/"))
        )

    def schemas(self, paths: Sequence[str]) -> Iterator[Any]:
        """Yield the different schemas of these files, as pyarrow has them."""
        seen = []
        for path in paths:
            schema = pyarrow.parquet.read_schema(path.removeprefix(self._prefix), filesystem=self._system)
            schema = schema.remove_metadata()
            if schema not in seen:
                seen.append(schema)
                yield schema

    def holds_any_of(self, uuid: str, known: set[str]) -> bool:
        """Return True if one of the run's files is among the known ones."""
        return any(path in known for path in self.parquet(uuid))

    def names(self, folder: str) -> list[str]:
        """See TargetNotes."""
        return sorted(each.base_name for each in self._under(f"{self._root}/{folder}"))

    def read(self, name: str) -> bytes | None:
        """See TargetNotes."""
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def put(self, name: str, content: bytes) -> None:
        """See TargetNotes."""
        folder = f"{self._root}/{name}".rpartition("/")[0]
        self._system.create_dir(folder, recursive=True)
        with self._system.open_output_stream(f"{self._root}/{name}") as stream:
            stream.write(content)
        self._sync(folder)

    def remove(self, name: str) -> None:
        """See TargetNotes."""
        with suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{name}")

    def remove_data(self, uuid: str) -> None:
        """Remove a run's folder, if there is one."""
        with suppress(FileNotFoundError):
            self._system.delete_dir(self._folder(uuid))

    def sync(self, uuid: str) -> None:
        """Make a run's files durable on a local file system."""
        self._sync(self._folder(uuid))

    def sync_metadata(self) -> None:
        """Make the table's metadata durable on a local file system: pyiceberg does not."""
        self._sync(f"{self._root}/metadata")

    def _sync(self, top: str) -> None:
        if not self._local:
            return
        disk = LocalFiles()
        for folder, _, names in os.walk(top, topdown=False):
            for name in names:
                file = disk.open_for_reading(os.path.join(folder, name))
                try:
                    file.sync_data()
                finally:
                    file.close()
            disk.sync_directory(folder)

    def _under(self, folder: str) -> list[Any]:
        chosen = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
        return list(self._system.get_file_info(chosen))

    def _folder(self, uuid: str) -> str:
        return f"{self._root}/data/logd-{uuid}"

    def _marker(self, uuid: str) -> str:
        return f"{self._root}/_staging/{uuid}"
