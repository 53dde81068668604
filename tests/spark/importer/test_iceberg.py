"""Tests of logd.spark.importer.targets.iceberg: a real catalog in SQLite and real files, without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.audit.event import AUDIT_TOPIC
from logd.errors import ConfigurationError
from logd.spark.importer.auditing.unpublished_counts import RunCounts, keep, publish_left
from logd.spark.importer.errors import TargetError
from logd.spark.importer.table_location import parse_table
from logd.spark.importer.targets.offsets import Lineage
from logd.spark.importer.targets.target import last_run, publish
from logd.spark.importer.targets.verifying import verify
from tests.spark.doubles import FakeBroker, FakeTopic
from tests.spark.importer.runs import A0, run_of
from tests.spark.importer.tables import MISSING, TableTestCase, setUpModule

__all__ = ["setUpModule"]

if not MISSING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from logd.spark.importer.targets.iceberg import IcebergTarget
    from logd.spark.importer.targets.table_history import OFFSETS


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
            "iceberg:///da\tta/logs.clicks",
            "iceberg:///da\nta/logs.clicks",
            "iceberg:///data/logs.cl icks",
        ):
            with self.assertRaisesRegex(ConfigurationError, "names no table: write iceberg://CATALOG"):
                parse_table(text)


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
        self.assertEqual(json.loads(summary.additional_properties["logd-offsets"]), json.loads(second.to_bytes()))
        self.assertEqual(self.staged(), ["data/logd-run-1", "data/logd-run-2"])
        found = verify(self.to)
        self.assertEqual((found.runs, found.messages, found.counted), (2, 5, 2))

    def test_a_run_without_messages(self) -> None:
        """A run that records only a loss is a snapshot too."""
        first = self.load(self.target, run_of(1, {A0: (0, 30)}))
        self.load(self.target, run_of(2, {}, first))
        self.assertEqual((self.ids(), self.opened().runs()), ([0, 10, 20], [1, 2]))

    def test_files_of_attempts_that_were_given_up(self) -> None:
        """An attempt of a task that another one has overtaken may still write; its files are nobody's."""
        run = run_of(1, {A0: (0, 20)})
        self.stage(self.target, run)
        sound = Path(self.target.staging(run.uuid).removeprefix("file://"), "by_topic=a", "part-0.parquet")
        late = sound.parent.with_name("_temporary") / "0" / "_temporary" / "attempt_7" / "by_topic=a"
        late.mkdir(parents=True)
        shutil.copy(sound, late / "part-0-of-another-attempt.parquet")
        publish(self.target, run)
        self.assertEqual((self.ids(), verify(self.to).messages), ([0, 10], 2))

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
        with self.assertRaisesRegex(TargetError, "its last run is 1, but 2 was the last one"):
            publish(self.target, third)

    def test_a_table_that_is_made_anew_during_an_import(self) -> None:
        """The import fails: the new table lacks the runs before it."""
        first = self.load(self.target, run_of(1, {A0: (0, 10)}))
        second = run_of(2, {A0: (10, 20)}, first)
        self.stage(self.target, second)
        self.table().catalog.drop_table("logs.clicks")
        self.opened().acquire()
        with self.assertRaisesRegex(TargetError, "it has no run, but 1 was the last one when this import began"):
            publish(self.target, second)
        self.assertEqual(self.ids(), [])

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

    def test_a_missing_file(self) -> None:
        """A run whose file is gone is found."""
        self.load(self.target, run_of(1, {A0: (0, 30)}))
        path = next(Path(self.folder).rglob("*.parquet"))
        path.unlink()
        with self.assertRaisesRegex(TargetError, f"1 data file of its current snapshot .* the first is file://{path}"):
            verify(self.to)

    def test_no_table(self) -> None:
        """A table that is not there is not one in good order."""
        with self.assertRaisesRegex(TargetError, "there is no such table"):
            verify(self.to)
        self.load(self.target, run_of(1, {A0: (0, 30)}))
        with self.assertRaisesRegex(TargetError, "logs.klicks: there is no such table"):
            verify(self.to.replace("clicks", "klicks"))


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
        damaged = mock.patch("logd.spark.importer.targets.iceberg.runs_of", return_value={run.run: "zlib:AAAA"})
        with damaged, self.assertRaisesRegex(TargetError, "run 1: logd-offsets in the snapshot's summary is damaged"):
            last_run(target)


class NotesTests(TableTestCase):
    """Small files beside the data of a table."""

    def test_counts_that_were_not_published_are_found_by_the_next_import(self) -> None:
        """Those of a run that the table has; those of one that it does not have are forgotten."""
        run = self.load(self.target, run_of(1, {A0: (0, 100)}))
        broker = FakeBroker({AUDIT_TOPIC: FakeTopic("uuid-audit")})
        for uuid in (run.uuid, "of-another"):
            keep(self.target, RunCounts(1, uuid, ()))
        self.assertEqual(len(self.target.notes.names("_audit")), 2)
        self.assertIsNone(self.target.notes.read("_audit/no"))
        notices = publish_left(self.opened(), broker.cluster())
        self.assertEqual([each[:19] for each in notices], ["run 1 was committed"])
        self.assertEqual((self.target.notes.names("_audit"), self.ids()), ([], list(range(0, 100, 10))))
        self.target.notes.remove("_audit/no")
