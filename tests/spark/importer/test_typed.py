"""Tests of imports with a schema registry that do not need Spark: what is looked up, and what a target refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.avro.answers import RegistryUnavailable
from logd.errors import ConfigurationError
from logd.spark.blocking.registry import RegistryAddress
from logd.spark.blocking.schema_lookup import ReaderSchema, parse_reader_schema
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor
from logd.spark.importer.errors import TargetError
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.report import ImportReport
from logd.spark.importer.run import Importer
from logd.spark.importer.settings import SchemaSettings
from logd.spark.importer.targets.layout import OFFSETS, QUARANTINE
from logd.spark.importer.targets.offsets import Loaded, PlaceColumns, RunOffsets
from logd.spark.importer.targets.verifying import verify
from logd.spark.importer.typed.shapes import IncompatibleShape, merged, shape_of
from logd.spark.worker.avro_types import parsed, value_type
from tests.spark.importer.test_run import TEN, FakeLoader, ImportTestCase
from tests.spark.registries import FakeRegistry, record


def shape(*fields: Any) -> Any:
    """Return the shape of a record."""
    return shape_of(value_type(parsed(record(*fields), (), "it"), "it").column.arrow)


class TypedLoader(FakeLoader):
    """A loader that writes Parquet, with the last ten bytes of each range in quarantine."""

    readers: dict[str, ReaderSchema]

    def load(
        self, ranges: Sequence[PlannedRange], folder: str, began_ms: int, columns: PlaceColumns, readers: Any
    ) -> list[Loaded]:
        """Write a file for each range, and one of its quarantine."""
        loaded = super().load(ranges, folder, began_ms, columns, readers)
        self.readers = dict(readers)
        place = Path(folder.removeprefix("file://"))
        (place / QUARANTINE).mkdir()
        for each in place.glob("part-*"):
            each.unlink()
        for number, counts in enumerate(loaded):
            for where, rows in ((place, counts.messages - 1), (place / QUARANTINE, 1)):
                pyarrow.parquet.write_table(pa.table({"id": [0] * rows}), where / f"part-{number}.parquet")
        return [evolve(each, quarantined=1) for each in loaded]


class TypedTests(ImportTestCase):
    """Imports of topic a, whose subject has a first version."""

    def setUp(self) -> None:
        """Make a registry."""
        super().setUp()
        self.registry = FakeRegistry()
        self.registry.add("a-value", record("x"))
        self.loader = self.typed = TypedLoader()
        address = RegistryAddress("http://me:secret@registry:8081", 5)
        self.settings = evolve(self.settings, format="parquet", schemas=SchemaSettings(address))

    def run_import(self, **changes: Any) -> ImportReport:
        """Import with the registry."""
        connect = lambda cluster: self.broker.cluster(retry_timeout=5.0)  # noqa: E731
        importer = Importer(
            evolve(self.settings, **changes),
            self.loader,
            connect,
            clock=lambda: 1_320_969_600.0,
            registry=lambda address: self.registry.client(address.timeout),
        )
        return importer.run()

    def reading(self, reader: str) -> SchemaSettings:
        """Return settings with another reader's schema."""
        assert self.settings.schemas is not None
        return SchemaSettings(self.settings.schemas.address, parse_reader_schema(reader))

    def more(self) -> None:
        """Append messages."""
        self.a.logs[0].data += TEN

    def offsets(self, run: int) -> RunOffsets:
        """Return a run's offsets."""
        return RunOffsets.from_bytes((self.to / f"run={run}" / OFFSETS).read_bytes(), "it")

    def test_messages_that_cannot_be_decoded_are_counted_and_named(self) -> None:
        """They belong to the run: to its messages, its bytes, its offsets, and the check of its files."""
        report = self.run_import()
        self.assertEqual((report.messages, report.bytes, report.quarantined), (30, 300, 2))
        self.assertEqual(report.to_json()["quarantined"], 2)
        self.assertIn("1 message of 10 cannot be decoded and is in", report.notices[0])
        self.assertIn(f"{self.to}/run=1/{QUARANTINE}", report.notices[0])
        self.assertEqual(self.offsets(1).quarantined, 2)
        self.assertEqual(verify(str(self.to)).messages, 30)
        (self.to / "run=1" / QUARANTINE / "part-0.parquet").unlink()
        self.assertIn("says 2", str(self.assertRaises(TargetError, verify, str(self.to))))

    def test_a_run_is_read_by_the_version_that_was_the_latest_at_its_beginning(self) -> None:
        """Another one may be registered while tasks run. No password is stored."""
        self.run_import()
        self.assertEqual(str(self.typed.readers["a"]), "version:1")
        self.registry.add("a-value", record("x", "y=5"))
        self.more()
        self.run_import()
        self.assertEqual(str(self.typed.readers["a"]), "version:2")
        self.assertEqual(self.offsets(2).data["values"], {"a": {"struct": {"x": "int", "y": "int"}}})
        self.assertEqual(self.offsets(2).format, 3)
        self.assertNotIn(b"secret", b"".join(each.read_bytes() for each in self.to.rglob(OFFSETS)))

    def test_a_schema_that_does_not_fit_is_refused_before_anything_is_written(self) -> None:
        """Also in a dry run, and after a run whose schema lacked the field: some files still have it."""
        self.run_import()
        self.registry.add("a-value", record("z=1"))
        self.more()
        self.run_import()
        self.registry.add("a-value", record({"name": "x", "type": "long"}))
        self.more()
        words = "topic 'a' \\(version:3\\) does not fit .*value.x is int, and would become bigint.*--reader-schema"
        for dry_run in (False, True):
            self.fails(TargetError, words, dry_run=dry_run)
        self.assertEqual(self.loader.loads, 2)
        self.assertEqual(self.run_import(schemas=self.reading("version:1")).run, 3)

    def test_a_target_is_typed_from_its_first_run_or_never(self) -> None:
        """A column of bytes in one file and of a struct in another cannot be read."""
        self.run_import()
        self.more()
        self.fails(TargetError, "name the registry by --registry", schemas=None)
        for _ in range(2):
            self.run_import()
            self.more()
        rewriter: Any = None
        groups = Compactor(CompactionSettings(to=str(self.to), dry_run=True), rewriter, lambda: 2e9).run().groups
        self.assertEqual([(each.runs, each.messages) for each in groups], [(2, 40)])
        self.to = Path(str(self.to) + "-untyped")
        self.loader = FakeLoader()
        self.run_import(to=str(self.to), schemas=None)
        self.more()
        self.fails(TargetError, "holds values as bytes.*another directory", to=str(self.to))

    def test_an_absent_registry_or_schema_fails_before_anything_is_written(self) -> None:
        """The errors name the registry without its password, and the remedy."""
        self.broker.topics["b"].logs[0].data = TEN
        self.fails(
            ConfigurationError, "subject 'b-value'.*register one", subscription=SourceSubscription(pattern="[ab]")
        )
        self.registry.away = True
        self.fails(RegistryUnavailable, "asked for 5 s.*Start the registry")
        self.assertEqual(self.loader.loads, 0)

    def test_settings_that_contradict_each_other_are_refused(self) -> None:
        """Each error names the option that does not fit."""
        pattern = SourceSubscription(pattern=".*")
        refused: tuple[tuple[str, dict[str, Any]], ...] = (
            ("writes Parquet, and not json", {"format": "json"}),
            ("begins with topic", {"partition_by": ("date",)}),
            ("begins with topic", {"partition_by": ()}),
            ("each into a table of its own", {"to": "iceberg://c/n.t", "subscription": pattern}),
            ("import that topic alone", {"schemas": self.reading("version:2"), "subscription": pattern}),
        )
        for words, changes in refused:
            self.assertIn(words, str(self.assertRaises(ConfigurationError, evolve, self.settings, **changes)))
        self.assertNotIn("secret", repr(self.settings))


class ShapeTests(SynchronousTestCase):
    """``merged``."""

    def test_fields_that_come_and_go_are_kept(self) -> None:
        """A reader has null where a file lacks a field, on every level."""
        inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}
        more = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "string"}]}
        old = shape("x", {"name": "i", "type": {"type": "array", "items": inner}})
        new = shape("y", {"name": "i", "type": {"type": "array", "items": more}})
        self.assertEqual(
            merged(old, new),
            {"struct": {"x": "int", "i": {"array": {"struct": {"a": "int", "b": "string"}}}, "y": "int"}},
        )
        self.assertEqual(merged(json.loads(json.dumps(old)), old), old)

    def test_a_field_of_another_type_is_named(self) -> None:
        """Also within arrays and maps, and if only the case of its name differs."""
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9}
        for old, new, words in (
            ("int", "long", "value.f is int, and would become bigint"),
            ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, r"value.f\[\] is int"),
            ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "value.f{} is int"),
            ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "value.f is map, and .* array"),
            ("string", {"type": "map", "values": "int"}, "value.f is string, and would become map"),
            ({**decimal, "scale": 1}, {**decimal, "scale": 2}, r"decimal\(9,1\), and would become decimal\(9,2\)"),
        ):
            with self.assertRaisesRegex(IncompatibleShape, words):
                merged(shape({"name": "f", "type": old}), shape({"name": "f", "type": new}))
        with self.assertRaisesRegex(IncompatibleShape, "a field x, and would get X"):
            merged(shape("x"), shape("X"))

    def test_numbers_may_become_wider_in_tables(self) -> None:
        """At any depth; a narrower number, and another scale, are other types there, too."""
        for old, new in (("int", "bigint"), ("float", "double"), ("decimal(4,2)", "decimal(9,2)")):
            held, wide = {"struct": {"x": {"array": old}}}, {"struct": {"x": {"array": new}}}
            self.assertEqual(merged(held, wide, widening=True), wide)
            for was, becomes, widening in ((held, wide, False), (wide, held, True)):
                with self.assertRaises(IncompatibleShape):
                    merged(was, becomes, widening=widening)
        for old, new in (("int", "double"), ("decimal(4,2)", "decimal(9,3)"), ("decimal(4,2)", "string")):
            with self.assertRaises(IncompatibleShape):
                merged(old, new, widening=True)
