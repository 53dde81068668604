"""``logd import --compact`` with real Spark: every value is kept, old columns and new, and readers never see half."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attrs import evolve

from logd.protocol.message import Message
from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder, why_not
from tests.integration.spark.test_import_session import A_TIME, ImportTestCase

if why_not() is None:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    from logd.spark.importer.compaction.compaction_report import CompactionReport
    from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor
    from logd.spark.importer.compaction.spark_rewriter import SparkRewriter
    from logd.spark.importer.errors import TargetError
    from logd.spark.importer.targets.local import LocalTarget
    from logd.spark.importer.targets.offsets import TYPED_FORMAT, Lineage, RunOffsets
    from logd.spark.importer.targets.swapping import put_notice
    from logd.spark.importer.targets.target import publish, read_run
    from logd.spark.importer.targets.verifying import verify
    from tests.spark.importer.runs import run_of

DAY = 24 * 3600


class CompactionTests(ImportTestCase):
    """Two runs of a date that is over, seen from the next one, and a third."""

    def setUp(self) -> None:
        """Import three times; the columns of the second run are more than those of the others."""
        super().setUp()
        self.importing(task_bytes=8 << 10)
        for number in range(2):
            self.fill(self.topic, numbered(range(number, number + 10)), 0)
            self.fill(self.topic, [Message(b"%d" % number, key=b"k", timestamp=A_TIME, headers=[("h", b"x")])], 1)
            self.importing()
        for path in Path(self.to).glob("run=2/**/*.parquet"):
            table = pa.parquet.ParquetFile(path).read()
            times = table["timestamp"].cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
            table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times)
            labels = pa.array([[("a", number)] for number in range(table.num_rows)], pa.map_(pa.string(), pa.int64()))
            table = table.append_column("labels", labels).append_column("extra", pa.array(["e"] * table.num_rows))
            table = table.replace_schema_metadata(None)  # Spark's, which lists the former columns
            pa.parquet.write_table(table, path)
            Path(path.parent, f".{path.name}.crc").unlink()

    def compact(self, **changes: Any) -> CompactionReport:
        """Compact as if it were tomorrow."""
        settings = evolve(CompactionSettings(to=self.to), **changes)
        return Compactor(settings, SparkRewriter(session=self.spark), lambda: time.time() + DAY).run()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as Spark reads them, in order, without the number of their run."""
        table = self.spark.read.option("mergeSchema", "true").parquet(self.to).drop("run")
        return [row.asDict(recursive=True) for row in table.orderBy("partition", "id").collect()]

    def files(self, run: int) -> list[Path]:
        """Return the data files of a run."""
        return sorted(Path(self.to).glob(f"run={run}/**/*.parquet"))

    def test_every_value_is_kept_in_few_sorted_files(self) -> None:
        """Also in columns that only some runs have, one of which is a map; imports and checks go on."""
        before, old = self.rows(), [*self.files(1), *self.files(2)]
        self.assertEqual((len(before), {row["extra"] for row in before}), (322, {None, "e"}))
        self.loses_nothing_unnoticed()
        report = self.compact(file_bytes=16 << 10)
        new = self.files(2)
        self.assertEqual([(each.first_run, each.run) for each in report.groups], [(1, 2)])
        self.assertEqual((report.groups[0].files_before, report.groups[0].files_after), (len(old), len(new)))
        self.assertGreater(len(old), len(new))
        self.assertGreater(len(new), 2)  # three tasks; the hour of the first partition is in several files
        self.assertEqual(self.rows(), before)
        for path in new:
            table = pa.parquet.ParquetFile(path).read(["partition", "id"])
            places = list(zip(table["partition"].to_pylist(), table["id"].to_pylist(), strict=True))
            self.assertEqual(places, sorted(places))
        self.assertEqual((verify(self.to).messages, verify(self.to).runs), (322, 2))
        self.assertEqual(self.compact().groups, ())
        self.readers_fail_while_runs_are_exchanged()
        self.fill(self.topic, numbered(range(5)), 0)
        self.assertEqual(self.importing().run, 4)
        self.assertEqual((verify(self.to).messages, len(self.rows())), (327, 327))

    def loses_nothing_unnoticed(self) -> None:
        """Check that old files that disagree with their offsets stay: a loss must not be made invisible."""
        victim = self.files(2)[0]
        aside = victim.rename(f"{self.to}.aside")
        with self.assertRaisesRegex(
            TargetError, "run=1 to run=2 hold .* but their offsets record .* nothing is merged"
        ):
            self.compact()
        aside.rename(victim)

    def readers_fail_while_runs_are_exchanged(self) -> None:
        """Check that Spark and pyarrow meet the notice, whatever they ask for; the next import removes it."""
        target = LocalTarget(self.to)
        put_notice(target.folders, read_run(target, 2))
        asked = f"topic = '{self.topic}' AND date = '2011-11-11' AND run = 3"
        for work in (
            lambda: self.spark.read.parquet(self.to).count(),
            lambda: self.spark.read.parquet(self.to).where(asked).count(),
            lambda: self.spark.read.schema("value BINARY, date STRING, run INT").parquet(self.to).where(asked).count(),
        ):
            self.assert_fails(work, "compaction=under-way")
        for expression in (None, pa.dataset.field("date") == "2011-11-11"):
            with self.assertRaisesRegex((OSError, ValueError), "compaction=under-way"):
                pa.dataset.dataset(self.to, partitioning="hive").to_table(filter=expression)


class TypedTests(SparkTestCase):
    """Runs whose values have types, as imports with a schema registry write them."""

    def test_each_topic_is_merged_with_its_own_types(self) -> None:
        """Two topics have no type in common; a field that came later is null in the older messages."""
        to = f"{shared_folder()}/{self.name()}"
        target = LocalTarget(to)
        target.acquire()
        runs: list[RunOffsets] = []
        for number, fields in enumerate(("x", "x, 'new' AS y", "x"), 1):
            ranges = {Lineage(topic, "u", 0): ((number - 1) * 100, number * 100) for topic in ("a", "1")}
            run = run_of(number, ranges, runs[-1] if runs else None)
            data = {"format": "parquet", "codec": "zstd", "partition_by": ["topic"], "values": {}}
            runs.append(evolve(run, data=data, format=TYPED_FORMAT))
            rows = self.spark.range(10).selectExpr(
                "0 AS partition",
                f"{number * 100 - 100} + id * 10 AS id",
                f"{number * 100 - 90} + id * 10 AS next_position",
                "cast(id AS int) AS x",
            )
            for topic, value in (("a", f"struct({fields}) AS value"), ("1", "cast(x AS string) AS value")):
                columns = ("partition", "id", "next_position", value)
                rows.selectExpr(*columns).write.parquet(f"{target.staging(run.uuid)}/topic={topic}")
            publish(target, runs[-1])
        target.close()
        done = Compactor(
            CompactionSettings(to=to), SparkRewriter(session=self.spark), lambda: runs[0].began_ms / 1000 + DAY
        ).run()
        self.assertEqual([(each.first_run, each.run, each.messages) for each in done.groups], [(1, 2, 40)])
        read = self.spark.read.option("basePath", to)
        values = read.parquet(f"{to}/run=2/topic=a").orderBy("id").collect()
        self.assertEqual([tuple(row["value"]) for row in values[8:12]], [(8, None), (9, None), (0, "new"), (1, "new")])
        others = read.parquet(f"{to}/run=2/topic=1").orderBy("id").collect()
        self.assertEqual([row["value"] for row in others[:2]], ["0", "1"])
        self.assertEqual((verify(to).messages, verify(to).runs), (60, 2))
