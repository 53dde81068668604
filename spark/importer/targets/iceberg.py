"""A target that is a table of Apache Iceberg: data and positions are committed in one snapshot, by pyiceberg.

::

    LOCATION/data/logd-<uuid>/*.parquet     the files of one run, written by Spark and never moved
    LOCATION/_staging/<uuid>                an empty file while it is not known whether the run was committed

A run is a snapshot. Its summary has the run's number and uuid and what ``_offsets.json`` has in a folder. Catalogs
compare and swap: a snapshot is committed only behind the one that it was made for, so of two imports one fails. The
snapshots of others (rewritten files, deleted rows) may come between two runs; the positions are those of the latest
run among the ancestors of the current snapshot, so a table that is rolled back is loaded again from there. Expiring
snapshots removes summaries, so the positions of the last run are also a property of the table, set in the same commit.
"""

from __future__ import annotations

import base64
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow.fs
import pyarrow.parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from logd.log.disk.local_files import LocalFiles
from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.table_location import CATALOG_FILE, TableLocation, parse_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

#: The different partitionings of tables that an import makes.
_FOLDERS = ((), ("topic",), ("date",), ("hour",), ("topic", "date"), ("topic", "hour"))

#: Keys in the summary of a snapshot. The property of the table has the name of the last one too.
RUN = "logd.run"
UUID = "logd.uuid"
OFFSETS = "logd.offsets"

#: Seconds since the last change of a staged run after which its import counts as dead. Tasks write continuously.
STALE_SECONDS = 24 * 60 * 60.0

#: Attempts at a commit, each behind what another writer has committed meanwhile.
_ATTEMPTS = 10

#: A key of the table's property: the place of the run's snapshot in the order of commits.
_SEQUENCE_NUMBER = "sequence-number"

#: Offsets above this length are compressed: each version of a table's metadata has the summaries of all its snapshots.
_LONG = 4096
_COMPRESSED = "zlib:"

#: The columns of every table; those that the files have beside them are added with the first run.
_SCHEMA = Schema(
    NestedField(1, "topic", StringType()),
    NestedField(2, "partition", IntegerType()),
    NestedField(3, "id", LongType()),
    NestedField(4, "next_position", LongType()),
    NestedField(5, "timestamp", TimestamptzType()),
)


class IcebergTarget:
    """See Target. ``folders`` are the columns of ImportSettings.partition_by; they partition a new table.

    Folders of dead imports are removed once nothing in them has changed for ``stale_seconds``.
    """

    def __init__(self, location: str, folders: Sequence[str] = (), stale_seconds: float = STALE_SECONDS) -> None:
        """Raises ConfigurationError if ``location`` names no table, TargetError if its catalog is not configured."""
        self._name = parse_table(location)
        self._fields = _partition_fields(folders)
        self._stale_seconds = stale_seconds
        self._contents: dict[str, bytes] = {}
        #: Runs whose commit failed in a way that does not tell whether the table has them.
        self._uncertain: set[str] = set()
        with self._translated():
            self._catalog = _open(self._name)

    @property
    def location(self) -> str:
        """The URI of the table."""
        return str(self._name)

    def runs(self) -> list[int]:
        """See Target; runs whose snapshots have expired are not among them, but for the last one."""
        table = self._loaded()
        return sorted(_runs(table)) if table is not None else []

    def read_offsets(self, run: int) -> bytes | None:
        """See Target."""
        table = self._loaded()
        found = _runs(table).get(run) if table is not None else None
        return _unpacked(found, f"{self.location}: run {run}") if found is not None else None

    def rows(self) -> dict[int, int]:
        """Return the number of rows that the snapshot of each run has added, but for runs whose snapshots expired."""
        table = self._loaded()
        summaries = [_summary(each) for each in _lineage(table)] if table is not None else []
        return {int(each[RUN]): int(each.get("added-records", 0)) for each in summaries if RUN in each}

    def acquire(self) -> None:
        """See Target. Creates the table if there is none; other imports are not kept out, and one of two fails."""
        table = self._loaded()
        if table is None:
            with self._translated(), suppress(TableAlreadyExistsError):  # another import has just created it
                self._catalog.create_namespace_if_not_exists(self._name.namespace)
                self._catalog.create_table(self._name.table, _SCHEMA, partition_spec=PartitionSpec(*self._fields))
            table = self._existing()
        self._check_partitions(table)

    def clean(self) -> list[str]:
        """See Target."""
        table = self._existing()
        files = _Files(table)
        removed = []
        for uuid in files.staged():
            if time.time() - files.last_change(uuid) <= self._stale_seconds:
                continue
            if not files.holds_any_of(uuid, self._known_files(table)):
                files.remove_data(uuid)
                removed.append(files.data(uuid))
            files.unmark(uuid)
        return removed

    def staging(self, uuid: str) -> str:
        """See Target."""
        files = _Files(self._existing())
        files.mark(uuid)
        scheme, colon, rest = files.data(uuid).partition(":")
        return f"{'s3a' if scheme == 's3' else scheme}{colon}{rest}"  # Hadoop's name of that file system

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """See Target; they are kept until ``rename`` commits them."""
        self._contents[uuid] = content

    def rename(self, uuid: str, run: int) -> None:
        """See Target. The files stay where they are: the snapshot makes them visible."""
        table = self._existing()
        files = _Files(table)
        paths = files.parquet(uuid)
        files.sync(uuid)
        packed = _packed(self._contents[uuid])
        for _ in range(_ATTEMPTS):
            self._check_next(table, run)
            self._uncertain.add(uuid)
            try:
                with self._translated(keep=CommitFailedException):
                    _commit(table, files, paths, {RUN: str(run), UUID: uuid, OFFSETS: packed})
            except CommitFailedException:
                self._uncertain.discard(uuid)
                table = self._existing()
                continue
            self._uncertain.discard(uuid)
            files.sync_metadata()
            files.unmark(uuid)
            return
        raise RunLost(
            f"{self.location}: others changed the table {_ATTEMPTS} times while this import tried to commit; nothing "
            "of the run is visible; import again when they are done"
        )

    def discard(self, uuid: str) -> None:
        """See Target. A run of which it is unknown whether the table has it stays, for ``clean`` of a later import."""
        self._contents.pop(uuid, None)
        if uuid in self._uncertain:
            return
        files = _Files(self._existing())
        files.remove_data(uuid)
        files.unmark(uuid)

    def close(self) -> None:
        """See Target."""
        with suppress(Exception):  # older releases of pyiceberg have no close
            self._catalog.close()

    def _check_next(self, table: Table, run: int) -> None:
        runs = _runs(table)
        if run in runs:
            raise FileExistsError(f"{self.location} has run {run}")
        if runs and max(runs) != run - 1:
            raise TargetError(
                f"{self.location}: its last run is {max(runs)}, but was {run - 1} when this import began: the table "
                "was rolled back or loaded meanwhile; nothing of this run is visible; import again"
            )

    def _check_partitions(self, table: Table) -> None:
        """Raise TargetError unless files that are divided by the import's folders fit into the table's partitions."""
        have = _described(table.spec().fields, table.schema())
        if have == _described(self._fields, _SCHEMA):
            return
        remedy = "logd import writes tables partitioned by topic, by day(timestamp) or hour(timestamp), or by both"
        for folders in _FOLDERS:
            if have == _described(_partition_fields(folders), _SCHEMA):
                remedy = f"give --partition-by {','.join(folders) or 'none'}"
        raise TargetError(f"{self.location} is partitioned by {', '.join(have) or 'nothing'}: {remedy}")

    def _known_files(self, table: Table) -> set[str]:
        """Return the paths of the data files of all snapshots."""
        with self._translated():
            if table.current_snapshot() is None:
                return set()
            return set(table.inspect.all_data_files().column("file_path").to_pylist())

    def _loaded(self) -> Table | None:
        with self._translated(keep=NoSuchTableError):
            try:
                return self._catalog.load_table(self._name.table)
            except NoSuchTableError:
                return None

    def _existing(self) -> Table:
        table = self._loaded()
        if table is None:
            raise TargetError(f"{self.location}: the table is gone: somebody dropped it while this import was running")
        return table

    @contextmanager
    def _translated(self, keep: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Convert what pyiceberg and its catalogs raise to TargetError, but for ``keep``."""
        try:
            yield
        except (TargetError, OSError, TableAlreadyExistsError):
            raise
        except keep:
            raise
        except Exception as error:  # catalogs raise the errors of their libraries, which have no common type
            text = " ".join(str(error).split()) or type(error).__name__
            raise TargetError(f"{self.location}: {text}") from error


def _open(name: TableLocation) -> Catalog:
    if name.catalog:
        return load_catalog(name.catalog)
    os.makedirs(name.folder, exist_ok=True)
    return load_catalog(
        "default", type="sql", uri=f"sqlite:///{name.folder}/{CATALOG_FILE}", warehouse=f"file://{name.folder}"
    )


def _partition_fields(folders: Sequence[str]) -> list[PartitionField]:
    """Return the fields that partition a table as ``folders`` divide files: an hour says its day as well."""
    fields = []
    if "topic" in folders:
        fields.append(PartitionField(1, 1000, IdentityTransform(), "topic"))
    if "hour" in folders:
        fields.append(PartitionField(5, 1001, HourTransform(), "timestamp_hour"))
    elif "date" in folders:
        fields.append(PartitionField(5, 1001, DayTransform(), "timestamp_day"))
    return fields


def _described(fields: Iterable[PartitionField], schema: Schema) -> list[str]:
    """Return partition fields as people write them, such as ``hour(timestamp)``, sorted."""
    return sorted(f"{field.transform}({schema.find_column_name(field.source_id)})" for field in fields)


def _commit(table: Table, files: _Files, paths: Sequence[str], summary: dict[str, str]) -> None:
    """Commit one snapshot with these files, behind the table's current one. Raises CommitFailedException."""
    # pyiceberg tries again by itself behind a snapshot of another writer, which may be the very same run.
    once = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": once})
    change = table.transaction()
    for schema in files.schemas(paths):
        with change.update_schema() as columns:
            columns.union_by_name(schema)
    number = str(table.metadata.last_sequence_number + 1)
    change.set_properties({OFFSETS: json.dumps({**summary, _SEQUENCE_NUMBER: number})})
    change.add_files(list(paths), snapshot_properties=summary)
    change.commit_transaction()


def _runs(table: Table) -> dict[int, str]:
    """Return the packed offsets of the runs among the current snapshot and its ancestors, by number."""
    lineage = _lineage(table)
    summaries = [_summary(each) for each in lineage]
    if lineage and not any(RUN in each for each in summaries):
        last = json.loads(table.properties.get(OFFSETS, "{}"))
        # Its snapshot has expired, unless the table was rolled back to a snapshot that is older.
        if _sequence_number(lineage[0]) > int(last.get(_SEQUENCE_NUMBER, 0)) or not _sequence_number(lineage[0]):
            summaries = [last]
    return {int(each[RUN]): each[OFFSETS] for each in summaries if RUN in each and OFFSETS in each}


def _sequence_number(snapshot: Snapshot) -> int:
    """Return the place of a snapshot in the order of commits; 0 in tables of Iceberg's first format, which has none."""
    return snapshot.sequence_number or 0


def _lineage(table: Table) -> list[Snapshot]:
    """Return the current snapshot and its ancestors, the newest first, up to one that has expired."""
    found = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return found


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}


def _packed(content: bytes) -> str:
    text = json.dumps(json.loads(content), separators=(",", ":"))
    if len(text) <= _LONG:
        return text
    return _COMPRESSED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _unpacked(text: str, where: str) -> bytes:
    if not text.startswith(_COMPRESSED):
        return text.encode()
    try:
        return zlib.decompress(base64.b64decode(text.removeprefix(_COMPRESSED)))
    except (ValueError, zlib.error) as error:
        raise TargetError(f"{where}: {OFFSETS} in the snapshot's summary is damaged: {error}") from None


class _Files:
    """The files of a table's runs, on the file system that pyiceberg uses for it."""

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
        """Return the URIs of the files that Spark has written for a run."""
        files = [each for each in self._under(self._folder(uuid)) if each.type == pyarrow.fs.FileType.File]
        return sorted(self._prefix + each.path for each in files if each.base_name.endswith(".parquet"))

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
