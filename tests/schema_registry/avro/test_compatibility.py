"""Tests of the comparison of schemas, case by case and beside fastavro, which reads what was found readable."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.schema_registry.avro.compatibility import MOST_DEPTH, Incompatibility, differences
from logd.schema_registry.avro.parsing import parse_avro
from logd.schema_registry.avro.types import PRIMITIVES, AvroDefinition, InvalidAvroSchema
from tests.schema_registry.avro.random_schemas import changed, random_schema
from tests.schema_registry.avro.test_parsing import record

FIXED = {"type": "fixed", "name": "F", "size": 4}
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
LIST: Any = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}

#: A reader of the first type reads the second.
PROMOTED = {
    *(("long", "int"), ("float", "int"), ("float", "long"), ("double", "int"), ("double", "long")),
    *(("double", "float"), ("string", "bytes"), ("bytes", "string")),
}

#: Reader, writer, and the differences: kind, path, what.
CASES: list[tuple[Any, Any, list[tuple[str, str, str]]]] = [
    (FIXED, {**FIXED, "size": 8}, [("FIXED_SIZE_MISMATCH", "/size", "expected: 8, found: 4")]),
    (FIXED, {**FIXED, "name": "G"}, [("NAME_MISMATCH", "/name", "expected: G")]),
    ({**FIXED, "aliases": ["n.G"]}, {**FIXED, "name": "n.G"}, []),
    ({**FIXED, "name": "n.F"}, {**FIXED, "name": "m.F"}, []),
    (ENUM, {**ENUM, "symbols": ["b", "c", "d"]}, [("MISSING_ENUM_SYMBOLS", "/symbols", "[c, d]")]),
    ({**ENUM, "default": "a"}, {**ENUM, "symbols": ["c"]}, []),
    (
        {"type": "array", "items": "int"},
        {"type": "array", "items": "string"},
        [("TYPE_MISMATCH", "/items", "reader type: INT not compatible with writer type: STRING")],
    ),
    (
        {"type": "map", "values": "int"},
        {"type": "map", "values": "null"},
        [("TYPE_MISMATCH", "/values", "reader type: INT not compatible with writer type: NULL")],
    ),
    (["null", "int"], "int", []),
    (["null", "long"], "int", []),
    (["null", "int"], "string", [("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: STRING")]),
    (
        ["null", "int"],
        ["null", "int", "string"],
        [("MISSING_UNION_BRANCH", "/2", "reader union lacking writer type: STRING")],
    ),
    ("int", ["null", "int"], [("TYPE_MISMATCH", "/", "reader type: INT not compatible with writer type: NULL")]),
    ([ENUM, FIXED], [FIXED, ENUM], []),
    ([{**FIXED, "name": "H", "aliases": ["F"]}], [FIXED], []),
    (record(), record({"name": "a", "type": "int"}), []),
    (
        record({"name": "a", "type": "int"}, {"name": "b", "type": "int"}),
        record(name="S"),
        [
            ("NAME_MISMATCH", "/name", "expected: S"),
            ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "a"),
            ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b"),
        ],
    ),
    (record({"name": "a", "type": "int", "default": 1}), record(), []),
    (record({"name": "b", "type": "int", "aliases": ["a"]}), record({"name": "a", "type": "int"}), []),
    (LIST, LIST, []),
    (
        {**LIST, "fields": [*LIST["fields"], {"name": "x", "type": "int"}]},
        LIST,
        [
            ("MISSING_UNION_BRANCH", "/fields/0/type/1", "reader union lacking writer type: RECORD"),
            ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "x"),
        ][1:],
    ),
]


class DifferencesTests(SynchronousTestCase):
    """The resolution rules of the specification, each with a reader that can and one that cannot read."""

    def compare(self, reader: Any, writer: Any) -> list[tuple[str, str, str]]:
        """Return the differences as rows."""
        found = differences(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
        return [(each.kind.name, each.path, each.what) for each in found]

    def test_each_rule_finds_its_difference(self) -> None:
        """Path and words are those of the reader's schema."""
        for reader, writer, expected in CASES:
            self.assertEqual(self.compare(reader, writer), expected, (reader, writer))

    def test_primitives_are_promoted_by_the_table_and_by_nothing_else(self) -> None:
        """Each primitive against each."""
        for reader in PRIMITIVES:
            for writer in PRIMITIVES:
                readable = reader == writer or (reader, writer) in PROMOTED
                self.assertEqual(not self.compare(reader, writer), readable, (reader, writer))

    def test_a_finding_that_rests_on_a_refuted_assumption_is_not_kept(self) -> None:
        """B reads the written P only where A reads W; it does not, so a second way to the same pair must fail too."""
        written = record(
            {"name": "p", "type": {"type": "record", "name": "P", "fields": [{"name": "w", "type": ["null", "R"]}]}},
            {"name": "again", "type": "P"},
        )
        p = {"type": "record", "name": "P", "fields": [{"name": "w", "type": ["null", "A"]}]}
        a = {
            "type": "record",
            "name": "A",
            "aliases": ["R"],
            "fields": [{"name": "p", "type": p}, {"name": "z", "type": "int"}],
        }
        b = {"type": "record", "name": "B", "aliases": ["R"], "fields": [{"name": "p", "type": "P"}]}
        self.assertEqual(
            self.compare([a, b], written), [("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: RECORD")]
        )

    def test_a_reason_is_worded_for_either_direction(self) -> None:
        """The reader is the new schema for backward compatibility, the old one for forward."""
        (found,) = differences(
            parse_avro(json.dumps(record({"name": "a", "type": "int"}))), parse_avro(json.dumps(record()))
        )
        self.assertIs(found.kind, Incompatibility.READER_FIELD_MISSING_DEFAULT_VALUE)
        self.assertEqual(
            found.describe("new", "old"),
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'a' at path '/fields/0' in the "
            "new schema has no default value and is missing in the old schema', additionalInfo:'a'}",
        )
        self.assertIn("in the old schema has no default value and is missing in the new", found.describe("old", "new"))

    def test_schemas_too_large_to_compare_are_refused(self) -> None:
        """A chain through names has no limit in the text; large unions have no limit of pairs."""
        known: dict[str, AvroDefinition] = {}
        for number in range(MOST_DEPTH):
            inner = [{"name": "f", "type": f"R{number - 1}"}] if number else []
            known = dict(parse_avro(json.dumps(record(*inner, name=f"R{number}")), known).known)
        chain = parse_avro(f'"R{MOST_DEPTH - 1}"', known)
        self.assertEqual(differences(chain, chain), [])
        longer = parse_avro(json.dumps(record({"name": "f", "type": f"R{MOST_DEPTH - 1}"}, name="Last")), known)
        longest = parse_avro(json.dumps(record({"name": "f", "type": "Last"}, name="R")), longer.known)
        self.assertIn("too deep", str(self.assertRaises(InvalidAvroSchema, differences, longest, longest)))
        wide = parse_avro(json.dumps([record(name=f"R{number}") for number in range(3000)]))
        self.assertEqual(differences(wide, wide), [])

    def test_fastavro_reads_what_was_found_readable(self) -> None:
        """Random values of random schemas, with a changed schema as the reader's."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        import fastavro
        from fastavro.utils import generate_one

        compatible = 0
        for seed in range(600):
            random = Random(seed)
            written = random_schema(random, [])
            read = changed(random, written)
            try:
                reader, writer = parse_avro(json.dumps(read)), parse_avro(json.dumps(written))
            except InvalidAvroSchema:
                continue  # a name that is used was defined in what the change took away
            if differences(reader, writer):
                continue
            compatible += 1
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, written, generate_one(written))
            stream.seek(0)
            fastavro.schemaless_reader(stream, written, read)
        self.assertGreater(compatible, 200)
