"""``logd import --registry`` into an Iceberg table, with a real registry, broker and Spark, and a catalog in SQLite."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SkipTest

from logd.protocol.message import Message
from logd.spark.blocking.cluster import ClusterSettings
from logd.spark.blocking.registry import RegistryAddress
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.errors import TargetError
from logd.spark.importer.report import ImportReport
from logd.spark.importer.run import Importer
from logd.spark.importer.session import NEEDED
from logd.spark.importer.settings import ImportSettings, SchemaSettings
from logd.spark.importer.spark_loader import SparkLoader
from logd.spark.importer.targets.verifying import verify
from logd.testing.processes.schema_registry import SchemaRegistryProcess
from tests.integration.schema_registry.rig import ask
from tests.integration.spark.rig import SparkTestCase, shared_folder
from tests.spark.registries import framed, record

A_TIME = 1_320_993_000_000
_ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
_NEWER_ITEM = {**_ITEM, "fields": [*_ITEM["fields"], {"name": "count", "type": "int", "default": 1}]}


def order(number: str, item: Any) -> str:
    """Return the schema of an order, whose number has this type, with one field of each kind that tables find hard."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    time = {"type": "long", "logicalType": "timestamp-millis"}
    return record(
        {"name": "number", "type": number},
        {"name": "items", "type": {"type": "array", "items": item}},
        {"name": "labels", "type": {"type": "map", "values": "long"}},
        {"name": "price", "type": ["null", decimal], "default": None},
        {"name": "at", "type": time},
        name="Order",
    )


class TypedTableTests(SparkTestCase):
    """One topic whose schema evolves, and a table."""

    def setUp(self) -> None:
        """Start a registry over the broker's tree."""
        if find_spec("pyiceberg") is None:
            raise SkipTest("pyiceberg is not installed: pip install 'logd[iceberg]'")
        super().setUp()
        for key, value in NEEDED.items():  # of the command's session; this one is shared by all tests
            before = self.spark.conf.get(key, None)
            self.addCleanup(*((self.spark.conf.unset, key) if before is None else (self.spark.conf.set, key, before)))
            self.spark.conf.set(key, value)
        log = f"{shared_folder()}/{self.name()}.log"
        self.schemas = SchemaRegistryProcess(self.broker.coordination, log).start()
        self.addCleanup(self.schemas.stop)
        self.topic = self.create(2)
        self.folder = f"{shared_folder()}/{self.name()}.warehouse"
        self.settings = ImportSettings(
            subscription=SourceSubscription(topics=(self.topic,)),
            to=f"iceberg://{self.folder}/logs.orders",
            cluster=ClusterSettings(brokers=self.broker.address),
            schemas=SchemaSettings(RegistryAddress(self.schemas.url)),
        )

    def register(self, schema: str, topic: str = "") -> int:
        """Register a version of a topic's subject; return its id."""
        ask(self.schemas.url, "/config", {"compatibility": "NONE"}, "PUT")
        subject = f"{topic or self.topic}-value"
        status, answer = ask(self.schemas.url, f"/subjects/{subject}/versions", {"schema": schema})
        self.assertEqual(status, 200, answer)
        return int(answer["id"])

    def load(self, **changes: Any) -> ImportReport:
        """Import new messages in the session of all tests."""
        settings = evolve(self.settings, **changes)
        return Importer(settings, SparkLoader(settings, session=self.spark)).run()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table, as any reader of Iceberg sees them."""
        from pyiceberg.catalog import load_catalog

        place = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        table = load_catalog("default", type="sql", **place).load_table("logs.orders")
        rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: (row["partition"], row["id"]))

    def test_types_evolve_and_what_cannot_be_decoded_is_a_row_with_a_reason(self) -> None:
        """New fields, also within arrays, and wider numbers, in the snapshot of the data; a narrower one is refused."""
        old = order("int", _ITEM)
        first = self.register(old)
        at = datetime(2011, 11, 11, 6, 30, tzinfo=UTC)
        one = {"number": 1, "items": [{"sku": "a"}], "labels": {"x": 1}, "price": Decimal("1.25"), "at": at}
        self.fill(self.topic, [Message(framed(first, old, one), key=b"k", timestamp=A_TIME)] * 3, 0)
        self.fill(self.topic, [Message(b"plain", timestamp=A_TIME), Message(None, key=b"gone")], 1)
        report = self.load(audit=True)
        self.assertEqual((report.run, report.messages, report.quarantined), (1, 5, 1))
        self.assertIn("1 message of 2 cannot be decoded and has the reason in column reason", report.notices[0])
        rows = self.rows()
        self.assertEqual([row["value"] for row in rows], [{**one, "labels": [("x", 1)]}] * 3 + [None, None])
        self.assertEqual([row["payload"] for row in rows], [None, None, None, b"plain", None])
        self.assertEqual([row["reason"] is None for row in rows], [True, True, True, False, True])
        self.assertIn("begins with 0x70", rows[3]["reason"])
        self.assertEqual([(row["topic"], row["key"]) for row in rows[3:]], [(self.topic, None), (self.topic, b"gone")])

        new = order("long", _NEWER_ITEM)
        second = self.register(new)
        two = {**one, "number": 1 << 40, "items": [{"sku": "b", "count": 2}], "price": None}
        self.fill(self.topic, [Message(framed(second, new, two))], 0)
        self.assertEqual((self.load().run, verify(self.settings.to).messages), (2, 6))
        values = [row["value"] for row in self.rows() if row["value"]]
        self.assertEqual([value["number"] for value in values], [1, 1, 1, 1 << 40])
        self.assertEqual([value["items"][0]["count"] for value in values], [None, None, None, 2])
        self.assertIsNone(self.load().run)

        self.register(old)
        self.register(order("string", _ITEM))
        self.fill(self.topic, [Message(b"wrong")], 0)
        with self.assertRaisesRegex(TargetError, "value.number is bigint, and would become string"):
            self.load()
        other = self.create(topic=self.name(".other"))
        self.register(old, other)
        self.fill(other, [Message(b"wrong")])
        with self.assertRaisesRegex(TargetError, "import each topic into a table of its own"):
            self.load(subscription=SourceSubscription(topics=(other,)))
        self.assertEqual(len(self.rows()), 6)
        events = [json.loads(row.value) for row in self.read("_audit").collect()]
        self.assertEqual(sum(each["count"] for each in events if each["topic"] == self.topic), 4)
