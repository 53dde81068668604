"""``logd import`` into Iceberg tables, with a real broker, Spark and a catalog in SQLite."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest

from logd.errors import ConfigurationError
from logd.protocol.message import Message
from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder, why_not

if why_not() is None:
    from logd.spark.blocking.cluster import ClusterSettings
    from logd.spark.blocking.subscription import SourceSubscription
    from logd.spark.importer.report import ImportReport
    from logd.spark.importer.run import Importer
    from logd.spark.importer.session import NEEDED
    from logd.spark.importer.settings import ImportSettings
    from logd.spark.importer.spark_loader import SparkLoader
    from logd.spark.importer.targets.verifying import verify

#: 2011-11-11T06:30:00Z, and half an hour before, in ms.
A_TIME, BEFORE = 1_320_993_000_000, 1_320_991_200_000 - 1


class TableTests(SparkTestCase):
    """A topic with some messages, and a table."""

    def setUp(self) -> None:
        """Create a topic of two partitions with 300 messages."""
        if find_spec("pyiceberg") is None:
            raise SkipTest("pyiceberg is not installed: pip install 'logd[iceberg]'")
        super().setUp()
        for key, value in NEEDED.items():  # of the command's session; this one is shared by all tests
            before = self.spark.conf.get(key, None)
            self.addCleanup(*((self.spark.conf.unset, key) if before is None else (self.spark.conf.set, key, before)))
            self.spark.conf.set(key, value)
        self.topic = self.create(2)
        self.fill(self.topic, numbered(range(200)), 0)
        self.fill(self.topic, [Message(b"at six", timestamp=A_TIME), Message(b"early", timestamp=BEFORE)] * 50, 1)
        self.folder = f"{shared_folder()}/{self.name()}.warehouse"
        self.to = f"iceberg://{self.folder}/logs.{self.name()}"

    def importing(self, **changes: Any) -> ImportReport:
        """Import the new messages."""
        settings = ImportSettings(
            subscription=SourceSubscription(topics=(self.topic,)),
            to=self.to,
            cluster=ClusterSettings(brokers=self.broker.address, retry_timeout=20.0),
            **changes,
        )
        return Importer(settings, SparkLoader(settings, session=self.spark)).run()

    def rows(self) -> Any:
        """Return the rows of the table, as any reader of Iceberg sees them."""
        from pyiceberg.catalog import load_catalog

        place = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        return load_catalog("default", type="sql", **place).load_table(f"logs.{self.name()}").scan().to_arrow()

    def test_runs_are_snapshots(self) -> None:
        """Two imports load every message once, with its columns; a third one finds nothing new."""
        first = self.importing()
        self.assertEqual((first.run, first.messages), (1, 300))
        self.fill(self.topic, [Message(b"later", key=b"k", timestamp=A_TIME, headers=(("a", b"b"),))] * 7, 0)
        self.assertEqual(self.importing().messages, 7)
        self.assertIsNone(self.importing().run)
        rows = self.rows().sort_by([("partition", "ascending"), ("id", "ascending")])
        here = rows.select(["partition", "id", "next_position", "value"]).to_pylist()
        places = ["partition", "id", "next_position", "value"]
        logged = self.spark.read.format("logd").option("brokers", self.broker.address).option("subscribe", self.topic)
        there = [row.asDict() for row in logged.load().select(*places).orderBy("partition", "id").collect()]
        self.assertEqual(here, [{**row, "value": bytes(row["value"])} for row in there])
        last = rows.to_pylist()[206]
        self.assertEqual((last["key"], last["headers"]), (b"k", [{"key": "a", "value": b"b"}]))
        self.assertEqual({row["topic"] for row in rows.to_pylist()}, {self.topic})
        found = verify(self.to)
        self.assertEqual((found.runs, found.messages), (2, 307))
        # Messages without a time, of the hour from six on, and of the one before: in two runs four partitions.
        self.assertEqual(len({path.parent for path in Path(self.folder).rglob("*.parquet")}), 4)

    def test_other_partitions(self) -> None:
        """Tables by day, or without partitions."""
        for number, folders in enumerate(((), ("date",), ("topic", "date", "hour"))):
            self.to = f"iceberg://{self.folder}/logs.{self.name()}{number}"
            self.assertEqual(self.importing(partition_by=folders).messages, 300)

    def test_refused(self) -> None:
        """Options that no table can fulfil are refused before anything is read."""
        with self.assertRaisesRegex(ConfigurationError, "format = 'json' is not allowed for a table"):
            self.importing(format="json")
