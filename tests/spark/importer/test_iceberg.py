"""Tests of logd.spark.importer.targets.iceberg: a real catalog in SQLite and real files, without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.errors import ConfigurationError
from logd.spark.importer.errors import RunLost, TargetError
from logd.spark.importer.targets.offsets import Lineage, RunOffsets
from logd.spark.importer.targets.table_location import parse_table
from logd.spark.importer.targets.target import last_run, publish
from logd.spark.importer.targets.verifying import verify
from tests.spark.importer.runs import A0, run_of

_NEEDED = ("pyarrow", "pyiceberg", "sqlalchemy")
MISSING = [name for name in _NEEDED if find_spec(name) is None]

if not MISSING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
    from pyiceberg.table import Table

    from logd.spark.importer.targets.iceberg import OFFSETS, IcebergTarget

NOON = datetime(2011, 11, 11, 12, tzinfo=UTC)


def setUpModule() -> None:  # the name that unittest knows
    """Skip, with the reason, where Iceberg is not installed."""
    if MISSING:
        raise SkipTest(f"not installed: {', '.join(MISSING)}; pip install 'logd[iceberg]'")


class LocationTests(SynchronousTestCase):
    """Names of tables."""

    def test_both_forms(self) -> None:
        """A catalog has a name, or stands in a folder."""
        for text, parts in (
            ("iceberg://production/logs.clicks", ("production", "", "logs.clicks")),
            ("iceberg:///data/ware house/a.b.c", ("", "/data/ware house", "a.b.c")),
        ):
            table = parse_table(text)
            self.assertEqual((table.catalog, table.folder, table.table), parts)
            self.assertEqual(str(table), text)
        self.assertEqual(parse_table("iceberg://x/a.b.c").namespace, "a.b")

    def test_what_names_no_table(self) -> None:
        """The error shows both forms."""
        for text in (
            "iceberg:logs.clicks",
            "iceberg://production",
            "iceberg://production/clicks",
            "iceberg:///clicks.x",
            "iceberg://production/folder/logs.clicks",
            "iceberg:///data/logs.",
            "iceberg:///data/.x",
            "iceberg:///da#ta/logs.clicks",
            "iceberg:///data/logs.cl icks",
        ):
            with self.assertRaisesRegex(ConfigurationError, "names no table: write iceberg://CATALOG"):
                parse_table(text)


class TableTestCase(SynchronousTestCase):
    """A warehouse in a folder, and a table in it."""

    def setUp(self) -> None:
        """Choose the folder."""
        setUpModule()
        self.folder = os.path.abspath(self.mktemp())
        self.to = f"iceberg://{self.folder}/logs.clicks"
        self.target = self.opened()

    def opened(self, folders: Sequence[str] = ("topic", "hour"), stale_seconds: float = 86400.0) -> IcebergTarget:
        """Return another target for the same table, as another import has it."""
        target = IcebergTarget(self.to, folders, stale_seconds)
        self.addCleanup(target.close)
        return target

    def table(self) -> Table:
        """Return the table as any reader loads it."""
        properties = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        return load_catalog("default", type="sql", **properties).load_table("logs.clicks")

    def stage(self, target: IcebergTarget, run: RunOffsets, **more: Any) -> None:
        """Write a file with the run's messages of ten bytes, and the columns ``more``."""
        target.acquire()
        folder = Path(target.staging(run.uuid).removeprefix("file://"), "by_topic=a")
        folder.mkdir(parents=True)
        for each in run.loaded:
            ids = list(range(each.start, each.end, 10))
            columns = {
                "topic": [each.lineage.topic] * len(ids),
                "partition": pa.array([each.lineage.partition] * len(ids), pa.int32()),
                "id": ids,
                "next_position": [id_ + 10 for id_ in ids],
                "timestamp": pa.array([NOON] * len(ids), pa.timestamp("us", "UTC")),
                **{name: [value] * len(ids) for name, value in more.items()},
            }
            pq.write_table(pa.table(columns), folder / f"part-{each.lineage.partition}.parquet")

    def load(self, target: IcebergTarget, run: RunOffsets, **more: Any) -> RunOffsets:
        """Stage and publish a run, and return it."""
        self.stage(target, run, **more)
        publish(target, run)
        return run

    def ids(self) -> list[int]:
        """Return the ids in the table, in order."""
        found: list[int] = self.table().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        return sorted(found)

    def staged(self) -> list[str]:
        """Return the folders of data, and the marks."""
        top = Path(self.folder, "logs", "clicks")
        return sorted(str(each.relative_to(top)) for each in (*top.glob("data/*"), *top.glob("_staging/*")))


class RunTests(TableTestCase):
    """Runs in a table."""

    def test_a_chain_of_runs(self) -> None:
        """Each run is one snapshot, with its positions; every reader finds both together."""
        self.assertIsNone(last_run(self.target))
        first = self.load(self.target, run_of(1, {A0: (0, 30)}))
        second = self.load(self.target, run_of(2, {A0: (30, 50)}, first))
        self.assertEqual(self.ids(), [0, 10, 20, 30, 40])
        self.assertEqual(self.opened().runs(), [1, 2])
        self.assertEqual(last_run(self.opened()), second)
        summary = self.table().snapshots()[-1].summary
        assert summary is not None
        self.assertEqual(json.loads(summary.additional_properties["logd.offsets"]), json.loads(second.to_bytes()))
        self.assertEqual(self.staged(), ["data/logd-run-1", "data/logd-run-2"])
        found = verify(self.to)
        self.assertEqual((found.runs, found.messages, found.counted), (2, 5, 2))

    def test_a_run_without_messages(self) -> None:
        """A run that records only a loss is a snapshot too."""
        first = self.load(self.target, run_of(1, {A0: (0, 30)}))
        self.load(self.target, run_of(2, {}, first))
        self.assertEqual((self.ids(), self.opened().runs()), ([0, 10, 20], [1, 2]))

    def test_many_partitions(self) -> None:
        """Positions of many partitions take little room in the table's metadata."""
        run = self.load(self.target, run_of(1, {Lineage("a", "uuid-a", number): (0, 10) for number in range(300)}))
        self.assertEqual(last_run(self.opened()), run)
        self.assertLess(len(self.table().properties[OFFSETS]), len(run.to_bytes()) // 10)

    def test_new_columns(self) -> None:
        """Columns that later files have are added to the table, and earlier rows have no value in them."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}), value=b"x")
        self.load(self.target, run_of(2, {A0: (10, 20)}, first), value=b"y", country="ch")
        rows = self.table().scan().to_arrow().sort_by("id")
        self.assertEqual(rows["value"].to_pylist(), [b"x", b"y"])
        self.assertEqual(rows["country"].to_pylist(), [None, "ch"])

    def test_a_column_of_another_type(self) -> None:
        """The run fails with the reason, and the table is as it was."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}), value=b"x")
        run = run_of(2, {A0: (10, 20)}, first)
        self.stage(self.target, run, value=7)
        with self.assertRaisesRegex(TargetError, "logs.clicks: .*value"):
            publish(self.target, run)
        self.assertEqual(last_run(self.opened()), first)

    def test_partitions(self) -> None:
        """The table has a partition for each topic and hour, so that readers skip the files of others."""
        self.load(self.target, run_of(1, {A0: (0, 10)}))
        spec = self.table().spec()
        self.assertEqual([str(each.transform) for each in spec.fields], ["identity", "hour"])
        for folders, remedy in ((("topic",), "topic,hour"), ((), "topic,hour")):
            with self.assertRaisesRegex(TargetError, f"partitioned by hour.*: give --partition-by {remedy}"):
                self.opened(folders).acquire()
        self.opened(("hour", "date", "topic")).acquire()

    def test_files_that_do_not_fit_the_partitions(self) -> None:
        """Nothing is committed."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        path = next(Path(self.folder).rglob("*.parquet"))
        rows = pq.ParquetFile(path).read()
        pq.write_table(pa.concat_tables([rows, rows.set_column(0, "topic", pa.array(["b"]))]), path)
        with self.assertRaisesRegex(TargetError, "partition"):
            publish(self.target, run)
        self.assertEqual(self.opened().runs(), [])


class RivalTests(TableTestCase):
    """Other writers."""

    def test_two_imports(self) -> None:
        """One of two that load the same messages fails, and nothing of it is visible or left."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        mine, theirs = (run_of(2, {A0: (10, 30)}, first, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        publish(other, theirs)
        with self.assertRaisesRegex(RunLost, "run=2 first"):
            publish(self.target, mine)
        self.target.discard("mine")
        self.assertEqual(self.ids(), [0, 10, 20])
        self.assertEqual(self.staged(), ["data/logd-run-1", "data/logd-theirs"])

    def test_two_at_the_same_moment(self) -> None:
        """The rival commits between the check and the commit; pyiceberg alone would append behind it."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        mine, theirs = (run_of(2, {A0: (10, 30)}, first, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        self.before_commit(lambda: publish(other, theirs))
        with self.assertRaisesRegex(RunLost, "run=2 first"):
            publish(self.target, mine)
        self.assertEqual(self.ids(), [0, 10, 20])

    def test_two_first_imports(self) -> None:
        """The same for runs that create the table."""
        mine, theirs = (run_of(1, {A0: (0, 20)}, uuid=name) for name in ("mine", "theirs"))
        other = self.opened()
        self.stage(other, theirs)
        self.stage(self.target, mine)
        self.before_commit(lambda: publish(other, theirs))
        with self.assertRaisesRegex(RunLost, "run=1 first"):
            publish(self.target, mine)
        self.assertEqual(self.ids(), [0, 10])

    def test_other_changes_at_the_same_moment(self) -> None:
        """Rows that others append, or properties that they set, do not stop an import."""
        self.target = self.opened(("topic",))  # pyiceberg appends to tables with hours only if it has another package
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        run = run_of(2, {A0: (10, 20)}, first)
        self.stage(self.target, run)

        def change() -> None:
            rows = self.table().scan().to_arrow()
            self.table().append(rows)
            self.table().transaction().set_properties({"owner": "somebody"}).commit_transaction()

        self.before_commit(change)
        publish(self.target, run)
        self.assertEqual(self.ids(), [0, 0, 10])
        self.assertEqual(last_run(self.opened()), run)

    def test_a_table_that_others_change_all_the_time(self) -> None:
        """The import ends with a clear error, and nothing of it is left."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        busy = mock.patch.object(Table, "_do_commit", side_effect=CommitFailedException("busy"))
        with busy, self.assertRaisesRegex(RunLost, "others changed the table 10 times"):
            publish(self.target, run)
        self.target.discard(run.uuid)
        self.assertEqual(self.staged(), [])

    def test_a_lost_answer(self) -> None:
        """A commit whose answer is lost is found in the table, and counts."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        self.lose_the_answer(done=True)
        publish(self.target, run)
        self.assertEqual((self.ids(), last_run(self.opened())), ([0], run))

    def test_a_lost_answer_and_a_catalog_that_is_away(self) -> None:
        """Files of which nobody knows whether they were committed stay; the next import looks."""
        for done in (True, False):
            run = run_of(1, {A0: (0, 10)}, uuid=f"done-{done}")
            self.stage(self.target, run)
            self.lose_the_answer(done)
            away = mock.patch.object(self.target, "read_offsets", side_effect=TargetError("away"))
            with away, self.assertRaises(TargetError):
                publish(self.target, run)
            self.target.discard(run.uuid)
            self.assertIn(f"data/logd-{run.uuid}", self.staged())
            if done:
                self.assertEqual(self.opened(stale_seconds=-1.0).clean(), [])
                self.assertEqual(self.staged(), ["data/logd-done-True"])
                self.assertEqual(self.ids(), [0])
                self.table().catalog.drop_table("logs.clicks")
            else:
                self.assertEqual(len(self.opened(stale_seconds=-1.0).clean()), 1)
                self.assertEqual(self.staged(), ["data/logd-done-True"])

    def before_commit(self, act: Callable[[], object]) -> None:
        """Let ``act`` happen once, just before the next commit reaches the catalog."""
        commit, acts = Table._do_commit, [act]

        def committing(table: Table, *arguments: Any, **named: Any) -> None:
            if acts:
                acts.pop()()
            commit(table, *arguments, **named)

        self.patch(Table, "_do_commit", committing)

    def lose_the_answer(self, done: bool) -> None:
        """Let the next commit fail without saying whether it was done."""
        commit, patched = Table._do_commit, mock.patch.object(Table, "_do_commit", autospec=True)

        def committing(table: Table, *arguments: Any, **named: Any) -> None:
            patched.stop()
            if done:
                commit(table, *arguments, **named)
            raise CommitStateUnknownException("the connection was lost")

        patched.start().side_effect = committing


class HistoryTests(TableTestCase):
    """Tables whose history others change."""

    def test_expired_snapshots(self) -> None:
        """The positions of the last run survive the removal of its snapshot."""
        self.target = self.opened(("topic",))
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        second = self.load(self.target, run_of(2, {A0: (10, 20)}, first))
        table = self.table()
        table.append(table.scan().to_arrow())
        old = [each.snapshot_id for each in table.snapshots()[:-1]]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        self.assertEqual(self.opened().runs(), [2])
        self.assertEqual(last_run(self.opened()), second)
        self.load(self.opened(("topic",)), run_of(3, {A0: (20, 30)}, second, uuid="third"))
        self.assertEqual(self.opened().runs(), [3])

    def test_a_table_that_is_rolled_back(self) -> None:
        """Messages of runs that were taken back are loaded again."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        self.load(self.target, run_of(2, {A0: (10, 20)}, first))
        table = self.table()
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
        self.assertEqual((last_run(self.opened()), self.ids()), (first, [0]))
        self.load(self.opened(), run_of(2, {A0: (10, 30)}, first, uuid="again"))
        self.assertEqual(self.ids(), [0, 10, 20])

    def test_a_table_that_is_rolled_back_to_before_the_first_run(self) -> None:
        """Everything is loaded again."""
        self.target = self.opened(("topic",))
        self.load(self.target, run_of(1, {A0: (0, 10)}))
        rows, catalog = self.table().scan().to_arrow(), self.table().catalog
        catalog.drop_table("logs.clicks")
        self.target.acquire()
        self.table().append(rows)
        self.load(self.target, run_of(1, {A0: (0, 10)}, uuid="again"))
        table = self.table()
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
        self.assertEqual(self.opened().runs(), [])

    def test_a_table_that_is_rolled_back_during_an_import(self) -> None:
        """The import fails: it would leave a gap."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        second = self.load(self.target, run_of(2, {A0: (10, 20)}, first))
        third = run_of(3, {A0: (20, 30)}, second)
        self.stage(self.target, third)
        table = self.table()
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
        with self.assertRaisesRegex(TargetError, "its last run is 1, but was 2"):
            publish(self.target, third)

    def test_a_table_of_somebody_else(self) -> None:
        """A table that exists is used if its partitions and columns fit."""
        self.load(self.target, run_of(1, {A0: (0, 10)}))
        catalog = self.table().catalog
        rows = self.table().scan().to_arrow()
        catalog.drop_table("logs.clicks")
        catalog.create_table("logs.clicks", rows.schema).append(rows)
        with self.assertRaisesRegex(TargetError, "partitioned by nothing: give --partition-by none"):
            self.opened().acquire()
        self.load(self.opened(()), run_of(1, {A0: (10, 20)}, uuid="another"))
        self.assertEqual(self.ids(), [0, 10])

    def test_a_dropped_table(self) -> None:
        """An import in the middle of which the table is dropped says so."""
        run = run_of(1, {A0: (0, 10)})
        self.stage(self.target, run)
        self.table().catalog.drop_table("logs.clicks")
        with self.assertRaisesRegex(TargetError, "somebody dropped it"):
            publish(self.target, run)

    def test_wrong_counts(self) -> None:
        """A run whose snapshot has fewer rows than its offsets say is found."""
        run = run_of(1, {A0: (0, 30)})
        self.stage(self.target, run)
        path = next(Path(self.folder).rglob("*.parquet"))
        pq.write_table(pq.ParquetFile(path).read().slice(1), path)
        publish(self.target, run)
        with self.assertRaisesRegex(TargetError, "run 1 added 2 messages, but its offsets say 3"):
            verify(self.to)


class CatalogTests(TableTestCase):
    """Catalogs that cannot be used."""

    def test_a_catalog_that_is_not_configured(self) -> None:
        """The error says what to configure."""
        with self.assertRaisesRegex(TargetError, "iceberg://nowhere/logs.clicks: .*PYICEBERG_CATALOG__NOWHERE__URI"):
            IcebergTarget("iceberg://nowhere/logs.clicks")

    def test_a_damaged_catalog(self) -> None:
        """The error names the table."""
        self.target.acquire()
        self.target.close()
        Path(self.folder, "catalog.db").write_bytes(b"no database" * 1000)
        with self.assertRaisesRegex(TargetError, "logs.clicks: .*not a database"):
            IcebergTarget(self.to)

    def test_damaged_offsets(self) -> None:
        """They are named."""
        run = self.load(self.target, run_of(1, {Lineage("a", "uuid-a", number): (0, 10) for number in range(100)}))
        target = self.opened()
        damaged = mock.patch("logd.spark.importer.targets.iceberg._runs", return_value={run.run: "zlib:AAAA"})
        with damaged, self.assertRaisesRegex(TargetError, "run 1: logd.offsets in the snapshot's summary is damaged"):
            last_run(target)
