"""``logd import --registry`` with a real registry, broker and Spark: typed files, and all that cannot be decoded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset
from attrs import evolve

from logd.protocol.message import Message
from logd.spark.blocking.cluster import ClusterSettings
from logd.spark.blocking.registry import RegistryAddress
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor
from logd.spark.importer.compaction.spark_rewriter import SparkRewriter
from logd.spark.importer.errors import ImportFailed, TargetError
from logd.spark.importer.report import ImportReport
from logd.spark.importer.run import Importer
from logd.spark.importer.settings import ImportSettings, SchemaSettings
from logd.spark.importer.spark_loader import SparkLoader
from logd.spark.importer.targets.layout import OFFSETS, QUARANTINE
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.swapping import put_notice
from logd.spark.importer.targets.target import read_run
from logd.spark.importer.targets.verifying import verify
from logd.testing.processes.schema_registry import SchemaRegistryProcess
from tests.integration.schema_registry.rig import ask
from tests.integration.spark.rig import SparkTestCase, shared_folder
from tests.spark.registries import framed, record


class TypedImportTests(SparkTestCase):
    """Two topics of different schemas in one target, whose schemas change between runs."""

    def setUp(self) -> None:
        """Start a registry over the broker's tree."""
        super().setUp()
        log = f"{shared_folder()}/{self.name()}.log"
        self.schemas = SchemaRegistryProcess(self.broker.coordination, log).start()
        self.addCleanup(self.schemas.stop)
        self.clicks, self.users = self.create(2, self.name(".clicks")), self.create(topic=self.name(".users"))
        self.to = os.path.abspath(self.mktemp())
        self.settings = ImportSettings(
            subscription=SourceSubscription(topics=(self.clicks, self.users)),
            to=self.to,
            cluster=ClusterSettings(brokers=self.broker.address),
            schemas=SchemaSettings(RegistryAddress(self.schemas.url)),
        )

    def register(self, topic: str, schema: str) -> int:
        """Register a version of a topic's subject; return its id."""
        status, answer = ask(self.schemas.url, f"/subjects/{topic}-value/versions", {"schema": schema})
        self.assertEqual(status, 200, answer)
        return int(answer["id"])

    def load(self, **changes: Any) -> ImportReport:
        """Import new messages in the session of all tests."""
        settings = evolve(self.settings, **changes)
        return Importer(settings, SparkLoader(settings, session=self.spark)).run()

    def values(self, topic: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return columns of all files of a topic, by Spark with mergeSchema."""
        reader = self.spark.read.option("mergeSchema", "true").option("basePath", self.to)
        frame = reader.parquet(f"{self.to}/run=*/topic={topic}")
        return sorted((tuple(row) for row in frame.selectExpr(*columns).collect()), key=repr)

    def test_schemas_evolve_and_nothing_is_dropped(self) -> None:
        """A new field is null in older files; what cannot be decoded is in the quarantine as it came."""
        old, user = record("x"), record({"name": "name", "type": "string"}, name="User")
        first, of_user = self.register(self.clicks, old), self.register(self.users, user)
        sound = [Message(framed(first, old, {"x": n}), key=b"k", timestamp=1_320_969_600_000) for n in range(5)]
        self.fill(self.clicks, sound, 0)
        short = framed(first, old, {"x": 7})[:-1]
        cut = Message(short, key=b"cut", timestamp=1_320_969_600_000, headers=(("h", b"1"),))
        self.fill(self.clicks, [Message(b"plain"), cut, Message(None, key=b"k")], 1)
        self.fill(self.users, [Message(framed(of_user, user, {"name": "ada"}))])
        report = self.load(audit=True)
        self.assertEqual((report.run, report.messages, report.quarantined), (1, 9, 2))
        self.assertEqual(
            [each.partition(": ")[2][:33] for each in report.notices], ["2 messages of 3 cannot be decoded"]
        )
        events = [json.loads(row.value) for row in self.read("_audit").collect()]
        # The audit counts messages with a time, one of which is in the quarantine.
        self.assertEqual(sum(each["count"] for each in events if each["topic"] == self.clicks), 6)

        new = record("x", "y=5")
        second = self.register(self.clicks, new)
        self.fill(
            self.clicks, [Message(framed(first, old, {"x": 5})), Message(framed(second, new, {"x": 6, "y": 1}))], 0
        )
        self.fill(self.users, [Message(b"")])
        self.assertEqual((self.load().run, verify(self.to).messages), (2, 12))
        self.assertEqual(self.values(self.users, "value.name"), [("ada",)])
        rows = [(n, None) for n in range(5)] + [(5, 5), (6, 1), (None, None)]
        self.assertEqual(self.values(self.clicks, "value.x", "value.y"), sorted(rows, key=repr))

        wrong = self.spark.read.parquet(f"{self.to}/run=*/_quarantine").orderBy("id").collect()
        self.assertEqual([row["value"] for row in wrong], [b"plain", cut.payload, b""])
        self.assertEqual([(row.partition, row.key) for row in wrong], [(1, None), (1, b"cut"), (0, None)])
        self.assertEqual([row.topic for row in wrong], [self.clicks, self.clicks, self.users])
        self.assertIn("begins with 0x70", wrong[0].reason)
        self.assertEqual([tuple(each) for each in wrong[1].headers], [("h", b"1")])
        visible = pyarrow.dataset.dataset(f"{self.to}/run=1", partitioning="hive").to_table(columns=["partition"])
        self.assertEqual(visible.num_rows, 7)  # readers of the target do not see the quarantine
        self.merged_runs_keep_their_quarantine()

    def merged_runs_keep_their_quarantine(self) -> None:
        """Check that all values and reasons are the same after a compaction, whose notice its readers meet, too."""

        def quarantine() -> list[Any]:
            wrong = self.spark.read.parquet(f"{self.to}/run=*/_quarantine").orderBy("topic", "partition", "id")
            return [row.asDict(recursive=True) for row in wrong.collect()]

        self.fill(self.users, [Message(b"wrong again")])
        self.load()

        def values() -> list[Any]:
            return [self.values(each, "* EXCEPT (run)") for each in (self.clicks, self.users)]

        before = quarantine(), values()
        self.assertEqual(len(before[0]), 4)
        lost = Path(self.to, "run=1", QUARANTINE).rename(f"{self.to}.aside")
        tomorrow = lambda: time.time() + 24 * 3600  # noqa: E731
        compactor = Compactor(CompactionSettings(to=self.to), SparkRewriter(session=self.spark), tomorrow)
        self.assertRaises((ImportFailed, TargetError), compactor.run)
        lost.rename(Path(self.to, "run=1", QUARANTINE))
        report = compactor.run()
        self.assertEqual([(each.first_run, each.run, each.messages) for each in report.groups], [(1, 2, 12)])
        self.assertEqual((quarantine(), values()), before)
        self.assertEqual((verify(self.to).messages, verify(self.to).runs), (13, 2))
        self.assertEqual(len(list(Path(self.to, "run=2", QUARANTINE).glob("*.parquet"))), 1)
        target = LocalTarget(self.to)
        self.assertEqual((read_run(target, 2).quarantined, target.folders.names("run=2/_merged")), (3, []))
        put_notice(target.folders, read_run(target, 2))
        self.assert_fails(quarantine, "run=0/_quarantine")
        self.assert_fails(lambda: self.values(self.users, "* EXCEPT (run)"), "compaction=under-way")

    def test_a_registry_that_goes_away_in_the_middle_loads_nothing(self) -> None:
        """The next run has all of it. A topic all of whose messages are wrong is loaded, too."""
        old = record("x")
        self.register(self.clicks, old)
        self.register(self.users, old)
        other = self.register("another", record("x", "z=1"))
        self.fill(self.clicks, [Message(framed(other, record("x", "z=1"), {"x": 3, "z": 1}))])
        self.fill(self.users, [Message(b"wrong")])
        settings = evolve(self.settings, schemas=SchemaSettings(RegistryAddress(self.schemas.url, 2)))
        loader = SparkLoader(settings, session=self.spark)
        start = loader.start

        def stopped(size: int) -> None:
            start(size)
            self.schemas.stop()

        self.patch(SparkLoader, "start", lambda _, size: stopped(size))
        error = self.assertRaises(ImportFailed, Importer(settings, loader).run)
        for words in (self.schemas.url, "does not answer", "Start the registry"):
            self.assertIn(words, str(error))
        self.assertEqual([each.name for each in Path(self.to).iterdir() if each.name.startswith("run=")], [])
        self.schemas.start()
        self.patch(SparkLoader, "start", lambda _, size: start(size))
        report = self.load()
        self.assertEqual((report.run, report.messages, report.quarantined), (1, 2, 1))
        self.assertEqual(self.values(self.clicks, "value.x"), [(3,)])
        offsets = json.loads(Path(self.to, "run=1", OFFSETS).read_text(encoding="utf-8"))
        self.assertEqual([each.get("quarantined") for each in offsets["partitions"]], [None, 1])
