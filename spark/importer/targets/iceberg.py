"""A target that is a table of Apache Iceberg: data and positions are committed in one snapshot, by pyiceberg.

A run is a snapshot. Its summary has the run's number and uuid and what ``_offsets.json`` has in a folder. Catalogs
compare and swap: a snapshot is committed only behind the one that it was made for, so of two imports one fails. The
snapshots of others (rewritten files, deleted rows) may come between two runs; the positions are those of the latest
run among the ancestors of the current snapshot, so a table that is rolled back is loaded again from there. Expiring
snapshots removes summaries, so the positions of the last run are also a property of the table, set in the same commit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.table_location import CATALOG_FILE, parse_table
from logd.spark.importer.targets.folders import TargetFolders, TargetNotes
from logd.spark.importer.targets.table_catalog import beside_others, explained, open_catalog
from logd.spark.importer.targets.table_files import TableFiles
from logd.spark.importer.targets.table_history import (
    OFFSETS,
    RUN,
    SEQUENCE_NUMBER,
    UUID,
    lineage,
    packed,
    runs_of,
    summary_of,
    unpacked,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

#: The different partitionings of tables that an import makes.
_FOLDERS = ((), ("topic",), ("date",), ("hour",), ("topic", "date"), ("topic", "hour"))

#: Seconds since the last change of a staged run after which its import counts as dead. Tasks write continuously.
STALE_SECONDS = 24 * 60 * 60.0

#: Attempts at a commit, each behind what another writer has committed meanwhile.
_ATTEMPTS = 10

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

    #: A table has no folders of runs to compact: engines for Iceberg rewrite its files.
    folders: TargetFolders | None = None

    def __init__(self, location: str, folders: Sequence[str] = (), stale_seconds: float = STALE_SECONDS) -> None:
        """Raises ConfigurationError if ``location`` names no table, TargetError if its catalog is not configured."""
        self._name = parse_table(location)
        self._fields = _partition_fields(folders)
        self._stale_seconds = stale_seconds
        self._contents: dict[str, bytes] = {}
        #: Runs that the table has, or has perhaps: after an interruption or a lost answer nobody knows.
        self._maybe_committed: set[str] = set()
        #: The uuid of the table, as the catalog has it, for which each run was staged.
        self._staged_for: dict[str, str] = {}
        self._catalog: Catalog | None = None
        if self._name.catalog or os.path.exists(f"{self._name.folder}/{CATALOG_FILE}"):
            self._opened()

    @property
    def location(self) -> str:
        """The URI of the table."""
        return str(self._name)

    @property
    def notes(self) -> TargetNotes:
        """See Target. Raises TargetError if there is no table."""
        return TableFiles(self._existing())

    def runs(self) -> list[int]:
        """See Target; runs whose snapshots have expired are not among them, but for the last one."""
        table = self._loaded()
        return sorted(runs_of(table)) if table is not None else []

    def read_offsets(self, run: int) -> bytes | None:
        """See Target."""
        table = self._loaded()
        found = runs_of(table).get(run) if table is not None else None
        return unpacked(found, f"{self.location}: run {run}") if found is not None else None

    def rows(self) -> dict[int, int]:
        """Return the number of rows that the snapshot of each run has added, but for runs whose snapshots expired."""
        table = self._loaded()
        summaries = [summary_of(each) for each in lineage(table)] if table is not None else []
        return {int(each[RUN]): int(each.get("added-records", 0)) for each in summaries if RUN in each}

    def missing_files(self) -> list[str]:
        """Return the data files of the current snapshot that are not there. Raises TargetError if there is no table."""
        table = self._loaded()
        if table is None:
            raise TargetError(f"{self.location}: there is no such table: check its name, or import into it first")
        with self._translated():
            paths = sorted(task.file.file_path for task in table.scan().plan_files())
            return [path for path in paths if not table.io.new_input(path).exists()]

    def acquire(self) -> None:
        """See Target. Creates the table if there is none; other imports are not kept out, and one of two fails."""
        table = self._loaded()
        if table is None:
            catalog = self._opened()
            with self._translated(), suppress(TableAlreadyExistsError):  # another import has just created it
                beside_others(lambda: catalog.create_namespace_if_not_exists(self._name.namespace))
                catalog.create_table(self._name.table, _SCHEMA, partition_spec=PartitionSpec(*self._fields))
            table = self._existing()
        self._check_partitions(table)

    def clean(self) -> list[str]:
        """See Target."""
        table = self._existing()
        files = TableFiles(table)
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
        table = self._existing()
        self._staged_for[uuid] = str(table.metadata.table_uuid)
        files = TableFiles(table)
        files.mark(uuid)
        scheme, colon, rest = files.data(uuid).partition(":")
        return f"{'s3a' if scheme == 's3' else scheme}{colon}{rest}"  # Hadoop's name of that file system

    def write_offsets(self, uuid: str, content: bytes) -> None:
        """See Target; they are kept until ``rename`` commits them."""
        self._contents[uuid] = content

    def rename(self, uuid: str, run: int) -> None:
        """See Target. The files stay where they are: the snapshot makes them visible."""
        table = self._existing()
        files = TableFiles(table)
        paths = files.parquet(uuid)
        files.sync(uuid)
        offsets = packed(self._contents[uuid])
        for _ in range(_ATTEMPTS):
            self._check_next(table, run)
            self._check_same(table, uuid)
            self._maybe_committed.add(uuid)
            try:
                with self._translated(keep=CommitFailedException):
                    _commit(table, files, paths, {RUN: str(run), UUID: uuid, OFFSETS: offsets})
            except CommitFailedException:
                self._maybe_committed.discard(uuid)
                table = self._existing()
                continue
            files.sync_metadata()
            files.unmark(uuid)
            return
        raise RunLost(
            f"{self.location}: others changed the table {_ATTEMPTS} times while this import tried to commit; nothing "
            "of the run is visible; import again when they are done"
        )

    def discard(self, uuid: str) -> None:
        """See Target. A run that the table has, or has perhaps, stays; ``clean`` of a later import looks."""
        self._contents.pop(uuid, None)
        if uuid in self._maybe_committed:
            return
        files = TableFiles(self._existing())
        files.remove_data(uuid)
        files.unmark(uuid)

    def close(self) -> None:
        """See Target."""
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            with suppress(Exception):  # older releases of pyiceberg have no close
                catalog.close()

    def _check_next(self, table: Table, run: int) -> None:
        runs = runs_of(table)
        if run in runs:
            raise FileExistsError(f"{self.location} has run {run}")
        last = max(runs, default=0)
        if last != run - 1:
            now = f"its last run is {last}" if last else "it has no run"
            raise TargetError(
                f"{self.location}: {now}, but {run - 1} was the last one when this import began: the table was rolled "
                "back, made anew or loaded meanwhile; nothing of this run is visible; import again"
            )

    def _check_same(self, table: Table, uuid: str) -> None:
        """Raise TargetError for a run that was staged for another table of this name: its files are not in this one."""
        if self._staged_for.get(uuid) not in (None, str(table.metadata.table_uuid)):
            raise TargetError(
                f"{self.location}: the table was dropped and made anew while this import was running; nothing of this "
                "run is visible; import again"
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

    def _opened(self) -> Catalog:
        if self._catalog is None:
            with self._translated():
                self._catalog = open_catalog(self._name)
        return self._catalog

    def _loaded(self) -> Table | None:
        if self._catalog is None:
            return None  # a dry run makes no warehouse
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
            raise TargetError(f"{self.location}: {explained(error, self._name)}") from error


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


def _commit(table: Table, files: TableFiles, paths: Sequence[str], summary: dict[str, str]) -> None:
    """Commit one snapshot with these files, behind the table's current one. Raises CommitFailedException."""
    # pyiceberg tries again by itself behind a snapshot of another writer, which may be the very same run.
    once = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": once})
    change = table.transaction()
    for schema in files.schemas(paths):
        with change.update_schema() as columns:
            columns.union_by_name(schema)
    number = str(getattr(table.metadata, "last_sequence_number", 0) + 1)
    change.set_properties({OFFSETS: json.dumps({**summary, SEQUENCE_NUMBER: number})})
    # The check for files that the table has would read all its manifests, and these names are new.
    change.add_files(list(paths), snapshot_properties=summary, check_duplicate_files=False)
    change.commit_transaction()
