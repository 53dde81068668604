"""Tests of values whose schemas are in a registry: looked up, resolved, and refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from logd.avro.answers import RegistryRefusal, RegistryUnavailable
from logd.avro.framing import head
from logd.errors import ConfigurationError
from logd.spark.blocking.registry import BlockingRegistry, RegistryAddress
from logd.spark.blocking.schema_lookup import SchemaLookup, SchemaText, parse_reader_schema
from logd.spark.worker.avro_types import MOST_COLUMNS
from logd.spark.worker.registered import RegisteredValues, reader_type
from tests.spark.registries import URL, FakeRegistry, framed, record


def of(kind: Any, name: str = "f") -> dict[str, Any]:
    """Return a field of a type."""
    return {"name": name, "type": kind}


class RegistryTestCase(SynchronousTestCase):
    """A test with a registry in memory."""

    def setUp(self) -> None:
        """Make the registry."""
        self.registry = FakeRegistry()

    def values(self, reader: str, *, shipped: bool = True) -> RegisteredValues:
        """Return the values of a task; with ``shipped`` the driver has looked up the schemas of topic t."""
        lookup = SchemaLookup(self.registry.client())
        written = lookup.written("t") if shipped else {}
        return RegisteredValues(SchemaText(reader), written, lookup.by_id)

    def decoded(self, kind: Any, *values: Any) -> list[Any]:
        """Return values of a field after a round trip by one schema."""
        schema = record(of(kind))
        number = self.registry.add("t-value", schema)
        found = self.values(schema).decode([framed(number, schema, {"f": value}) for value in values])
        self.assertEqual(found.wrong, {})
        return [None if each is None else each["f"] for each in found.array.to_pylist()]


class LookupTests(RegistryTestCase):
    """``SchemaLookup`` and ``BlockingRegistry``."""

    def test_the_reader_is_the_latest_or_the_given_schema(self) -> None:
        """A missing one is named with its subject and the registry."""
        old, new = record("x"), record("x", "y=5")
        self.registry.add("t-value", old)
        self.registry.add("t-value", new)
        lookup = SchemaLookup(self.registry.client())
        for text, expected in (("latest", new), ("version:1", old), ("id:12", new), (old, old)):
            self.assertEqual(lookup.reader(parse_reader_schema(text), "t").text, expected)
        for text, topic in (("latest", "other"), ("version:3", "t"), ("id:99", "t")):
            error = self.assertRaises(ConfigurationError, lookup.reader, parse_reader_schema(text), topic)
            for word in (URL, f"{topic}-value", text, "register one"):
                self.assertIn(word, str(error))
        for text in ("newest", "version:x", "version:0", "id:9999999999", "version:٣"):
            self.assertRaises(ValueError, parse_reader_schema, text)

    def test_the_driver_looks_up_each_version_once(self) -> None:
        """A later plan asks for the list of versions, and for what is new in it."""
        self.registry.add("t-value", record("x"))
        self.registry.add("t-value", "{}", schemaType="JSON")
        lookup = SchemaLookup(self.registry.client())
        self.assertEqual(list(lookup.written("t")), [11])
        self.registry.add("t-value", record("x", "y=1"))
        self.registry.requests.clear()
        self.assertEqual(list(lookup.written("t")), [11, 13])
        self.assertEqual(len(self.registry.requests), 2)
        self.assertEqual(lookup.written("without"), {})

    def test_references_go_with_their_schema(self) -> None:
        """Executors that do not reach the registry need them as well."""
        inner = self.registry.add("inner", record("x", name="Inner"))
        self.registry.add("middle", record(of("Inner"), name="Middle"), references=[self.reference("inner")])
        outer = record(of("Middle", "m"), of("Inner", "i"), name="Outer")
        number = self.registry.add("t-value", outer, references=[self.reference("inner"), self.reference("middle")])
        lookup = SchemaLookup(self.registry.client())
        text = lookup.by_id(number)
        self.registry.away = True
        self.assertEqual(reader_type(text).column.ddl, "struct<`m`:struct<`f`:struct<`x`:int>>,`i`:struct<`x`:int>>")
        found = RegisteredValues(text, {number: text}, lookup.by_id).decode([head(number) + b"\x02\x04"])
        self.assertEqual(found.array.to_pylist(), [{"m": {"f": {"x": 1}}, "i": {"x": 2}}])
        self.assertEqual(inner, 11)

    def test_a_union_of_references_is_read(self) -> None:
        """fastavro forgets the types of references that a union names."""
        self.registry.add("inner", record("x", name="Inner"))
        number = self.registry.add("t-value", '["null","Inner"]', references=[self.reference("inner")])
        lookup = SchemaLookup(self.registry.client())
        text = lookup.by_id(number)
        found = RegisteredValues(text, {number: text}, lookup.by_id).decode([head(number) + b"\x02\x04"])
        self.assertEqual((found.array.to_pylist(), found.wrong), ([{"x": 2}], {}))

    @staticmethod
    def reference(subject: str) -> dict[str, Any]:
        """Return a reference to the first version of a subject."""
        return {"name": subject, "subject": subject, "version": 1}

    def test_the_wait_for_a_registry_is_bounded(self) -> None:
        """The error has the URL and the remedy. A registry that comes back in time is no error."""
        self.registry.add("t-value", record("x"))
        self.registry.away = True
        error = self.assertRaises(RegistryUnavailable, SchemaLookup(self.registry.client(5)).by_id, 11)
        for words in (URL, "does not answer", "asked for 5 s", "Start the registry, or name another"):
            self.assertIn(words, str(error))
        self.assertTrue(3 < self.registry.now <= 5)
        self.registry.away, self.registry.status = False, 503
        error = self.assertRaises(RegistryUnavailable, SchemaLookup(self.registry.client(5)).by_id, 11)
        self.assertIn("HTTP status 503", str(error))

        def back(seconds: float) -> None:
            self.registry.status = 200

        client = BlockingRegistry(RegistryAddress(URL), self.registry.exchange, lambda: 0.0, back)
        self.assertEqual(SchemaLookup(client).by_id(11).text, record("x"))

    def test_an_answer_that_no_registry_gives_is_refused_at_once(self) -> None:
        """It may be a web server of another kind; waiting would not help."""
        lookup = SchemaLookup(self.registry.client())
        for body in (
            b"<html>",
            b"[]",
            b"{}",
            b'{"schema": 7}',
            b'{"schema": "{}", "references": 3}',
            b"\xff",
            b"1e999",
        ):
            self.registry.body = body
            self.assertRaises(RegistryUnavailable, lookup.by_id, 11)
        self.registry.body = b'{"1": 2}'
        self.assertRaises(RegistryUnavailable, lookup.written, "t")
        self.registry.status, self.registry.body = 401, b""
        self.assertIn("password", str(self.assertRaises(RegistryRefusal, lookup.by_id, 11)))
        self.assertEqual(self.registry.now, 0)

    def test_a_password_is_in_no_text(self) -> None:
        """Errors, files and the web page of Spark show the address without it."""
        settings = RegistryAddress(" http://me:secret@registry:8081/path/ ")
        self.assertEqual(settings.shown, "http://registry:8081/path")
        self.assertNotIn("secret", repr(settings))
        for url in ("registry:8081", "ftp://me:secret@x", "http://", "http://x:me", "http://x?y=1", ""):
            error = self.assertRaises(ConfigurationError, RegistryAddress, url)
            self.assertIn("write http://HOST:PORT", str(error))
            self.assertNotIn("secret", str(error))


class DecodingTests(RegistryTestCase):
    """``RegisteredValues``."""

    def test_messages_of_every_version_are_read_by_the_reader(self) -> None:
        """A field that an older schema lacks has its default; one that the reader lacks is left out."""
        schemas = [record("x"), record("x", "y=5"), record("x", "y=5", "z=6")]
        ids = [self.registry.add("t-value", each) for each in schemas]
        messages = [
            framed(number, schema, {"x": 1, "y": 2, "z": 3}) for number, schema in zip(ids, schemas, strict=True)
        ]
        found = self.values(schemas[1]).decode([*messages, None])
        expected = [{"x": 1, "y": 5}, {"x": 1, "y": 2}, {"x": 1, "y": 2}, None]
        self.assertEqual((found.array.to_pylist(), found.wrong), (expected, {}))

    def test_an_id_is_asked_for_once_by_a_task_and_never_if_it_was_shipped(self) -> None:
        """Not for each message; an id that does not exist is remembered, too."""
        schema = record("x")
        number = self.registry.add("t-value", schema)
        shipped, asking = self.values(schema), self.values(schema, shipped=False)
        self.registry.requests.clear()
        shipped.decode([framed(number, schema, {"x": 1})] * 100)
        self.assertEqual(self.registry.requests, [])
        for _ in range(3):
            found = asking.decode([framed(number, schema, {"x": 1}), head(99) + b"\x02"] * 100)
            self.assertEqual(len(found.wrong), 100)
        self.assertEqual(self.registry.requests, [f"/schemas/ids/{number}", "/schemas/ids/99"])

    def test_a_message_that_cannot_be_read_has_its_reason(self) -> None:
        """The sound ones around it are decoded."""
        schema = record("x")
        number = self.registry.add("t-value", schema)
        json_schema = self.registry.add("j", "{}", schemaType="JSON")
        broken = self.registry.add("b", '{"type": "nonsense"}')
        other = self.registry.add("o", record(of("string", "x")))
        long = self.registry.add("l", record(of("long", "x")))
        good = framed(number, schema, {"x": 1})
        for payload, words in (
            (b"", "too short"),
            (b"\x00\x00", "too short"),
            (b"{}" * 10, "begins with 0x7b"),
            (good[:-1], f"cannot be read by schema {number}"),
            (good + b"x", "1 bytes more"),
            (head(99) + b"\x02", "schema 99 does not exist"),
            (head(json_schema) + b"\x02", "of type JSON"),
            (head(broken) + b"\x02", "cannot be parsed"),
            (head(other) + b"\x02a", f"cannot be read by schema {other}"),
            (head(long) + b"\x02", f"cannot be read by schema {long}"),
            (head(number) + b"\xff" * 20, f"cannot be read by schema {number}"),
        ):
            found = self.values(schema).decode([good, payload, good])
            self.assertEqual(found.array.to_pylist(), [{"x": 1}, None, {"x": 1}])
            self.assertEqual(list(found.wrong), [1])
            self.assertIn(words, found.wrong[1])
            self.assertNotIn("\n", found.wrong[1])

    def test_a_registry_that_is_away_is_no_fault_of_a_message(self) -> None:
        """The task fails in every mode, so that nothing is passed over; so it does when the registry refuses."""
        schema = record("x")
        payload = framed(self.registry.add("t-value", schema), schema, {"x": 1})
        self.registry.away = True
        self.assertRaises(
            RegistryUnavailable,
            RegisteredValues(SchemaText(schema), {}, SchemaLookup(self.registry.client()).by_id).decode,
            [payload],
        )
        self.registry.away, self.registry.status = False, 403
        self.assertRaises(
            RegistryUnavailable,
            RegisteredValues(SchemaText(schema), {}, SchemaLookup(self.registry.client()).by_id).decode,
            [payload],
        )

    def test_a_schema_that_could_end_the_worker_is_not_used(self) -> None:
        """fastavro recurses without a limit, and counts items that take no bytes up to 2^60."""
        reader = record("x=1")
        array = {"type": "array", "items": "null"}
        inner: Any = {"type": "record", "name": "R0", "fields": [of("null")]}
        for number in range(1, 40):  # 2^40 values in no bytes
            inner = {"type": "record", "name": f"R{number}", "fields": [of(inner, "a"), of(f"R{number - 1}", "b")]}
        for schema, words in (
            (record("x=1", of(["null", "R"], "next")), "recursive"),
            (record("x=1", of(array)), "take no bytes"),
            (record("x=1", of(inner)), "fields within fields"),
        ):
            number = self.registry.add("t-value", schema)
            found = self.values(reader).decode([head(number) + b"\x02" * 100_000])
            self.assertIn(words, found.wrong[0])


class TypeTests(RegistryTestCase):
    """Types of Avro as columns."""

    def test_logical_types_have_columns_of_their_own(self) -> None:
        """Those that Spark lacks are the type beneath."""
        day, moment = date(2011, 11, 11), datetime(2011, 11, 11, 6, 5, 4, 3000, UTC)
        for kind, ddl, value, expected in (
            ({"type": "int", "logicalType": "date"}, "date", day, day),
            ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp", moment, moment),
            ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp", moment, moment),
            (
                {"type": "long", "logicalType": "local-timestamp-millis"},
                "timestamp_ntz",
                moment.replace(tzinfo=None),
                moment.replace(tzinfo=None),
            ),
            ({"type": "int", "logicalType": "time-millis"}, "int", 5, 5),
            ({"type": "long", "logicalType": "time-micros"}, "bigint", 5, 5),
            ({"type": "string", "logicalType": "uuid"}, "string", "a-b", "a-b"),
            (
                {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                "decimal(9,2)",
                Decimal("-12.34"),
                Decimal("-12.34"),
            ),
            (
                {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 3},
                "decimal(18,3)",
                Decimal("1.5"),
                Decimal("1.500"),
            ),
            ({"type": "long", "logicalType": "of-my-own"}, "bigint", 5, 5),
            ({"type": "fixed", "name": "F", "size": 2}, "binary", b"ab", b"ab"),
            ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", "B", "B"),
            (
                {"type": "map", "values": ["null", "long"]},
                "map<string,bigint>",
                {"a": 1, "b": None},
                [("a", 1), ("b", None)],
            ),
            ({"type": "array", "items": "double"}, "array<double>", [1.5], [1.5]),
            (["null", "string"], "string", None, None),
            (["int", "long"], "bigint", 5, 5),
            (["float", "double", "null"], "double", 1.5, 1.5),
        ):
            plain = json.loads(json.dumps(kind))
            self.assertEqual(reader_type(SchemaText(record(of(plain)))).column.ddl, f"struct<`f`:{ddl}>")
            self.assertEqual(self.decoded(kind, value), [expected])

    def test_a_logical_type_may_come_later(self) -> None:
        """A number of an older message counts in the unit of the reader's."""
        old = record(of("long"))
        number = self.registry.add("t-value", old)
        for unit, at in (("timestamp-millis", 1_320_991_504_003), ("timestamp-micros", 1_320_991_504_003_000)):
            values = self.values(record(of({"type": "long", "logicalType": unit})))
            found = values.decode([framed(number, old, {"f": at})])
            self.assertEqual(found.array.to_pylist(), [{"f": datetime(2011, 11, 11, 6, 5, 4, 3000, UTC)}])
            self.assertEqual(found.array.type, pa.struct([("f", pa.timestamp("us", tz="UTC"))]))
            self.assertEqual(
                list(values.decode([framed(number, old, {"f": 1 << 62})]).wrong), [0] if "milli" in unit else []
            )

    def test_a_union_of_several_types_is_a_struct_of_them(self) -> None:
        """One field is set, as in Spark's own Avro reader; null is null."""
        a, b = ({"type": "record", "name": name, "fields": [of("int", "x")]} for name in "AB")
        enum = {"type": "enum", "name": "E", "symbols": ["S"]}
        kind = ["null", a, b, "string", enum, {"type": "array", "items": "B"}, "boolean", "long"]
        schema = record(of(kind))
        number = self.registry.add("t-value", schema)
        values = self.values(schema)
        given = [None, ("B", {"x": 1}), ("A", {"x": 2}), "text", ("E", "S"), [{"x": 3}], True, 4]
        found = values.decode([framed(number, schema, {"f": each}) for each in given])
        self.assertEqual(found.wrong, {})
        expected: list[Any] = [
            None,
            ("member1", {"x": 1}),
            ("member0", {"x": 2}),
            ("member2", "text"),
            ("member3", "S"),
            ("member4", [{"x": 3}]),
            ("member5", True),
            ("member6", 4),
        ]
        for row, wanted in zip(found.array.to_pylist(), expected, strict=True):
            members = row["f"]
            self.assertEqual(
                members if members is None else [e for e in members.items() if e[1] is not None], wanted and [wanted]
            )

    def test_a_union_may_grow(self) -> None:
        """A value that was written when there was one type is found among several."""
        b = {"type": "record", "name": "B", "fields": [of("int", "y")]}
        old = record(of(b))
        number = self.registry.add("t-value", old)
        a = {"type": "record", "name": "A", "fields": [of("int", "x")]}
        found = self.values(record(of([a, b, "string"]))).decode([framed(number, old, {"f": {"y": 1}})])
        self.assertEqual(found.array.to_pylist(), [{"f": {"member0": None, "member1": {"y": 1}, "member2": None}}])

    def test_a_schema_that_no_column_can_hold_is_refused(self) -> None:
        """The error names the place and the remedy."""
        wide: Any = {"type": "record", "name": "R0", "fields": [of("int")]}
        for number in range(1, 20):
            wide = {"type": "record", "name": f"R{number}", "fields": [of(wide, "a"), of(f"R{number - 1}", "b")]}
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}
        for kind, words in (
            (["null", "R"], "value.f contains R again"),
            ({"type": "array", "items": "R"}, "value.f[] contains R again"),
            ("null", "value.f is null"),
            (["null"], "always null"),
            ({"type": "record", "name": "E", "fields": []}, "without fields"),
            ({"type": "record", "name": "E", "fields": [of("int", "a"), of("int", "A")]}, "one name to Spark"),
            (["int", "long", "string"], "a union of int and long beside"),
            (decimal, "decimal(39,2)"),
            (wide, f"more than {MOST_COLUMNS}"),
        ):
            error = self.assertRaises(ConfigurationError, reader_type, SchemaText(record(of(kind))))
            self.assertIn(words, str(error))
        for text in ("{", '"nonsense"', "[" * 5000):
            self.assertRaises(ConfigurationError, reader_type, SchemaText(text))
        # The remedy: what no column can hold is left out by a reader's schema without it.
        schema = record("x", of({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}))
        number = self.registry.add("t-value", schema)
        found = self.values(record("x")).decode([framed(number, schema, {"x": 1, "f": Decimal("1.23")})])
        self.assertEqual((found.array.to_pylist(), found.wrong), ([{"x": 1}], {}))
