"""Tests of the parser: what it refuses, and that it is no stricter and no laxer than the specification."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.schema_registry.avro.parsing import MOST_LEVELS, parse_avro
from logd.schema_registry.avro.types import InvalidAvroSchema


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    """Return the JSON of a record R with these fields."""
    return {"type": "record", "name": "R", "fields": list(fields), **more}


REFUSED: dict[str, Any] = {
    "neither a type of Avro nor defined before its use": "Unknown",
    "3 is no type": 3,
    "None is no type": None,
    'the object has no "type"': {"type": ["int"]},
    '"items" is missing': {"type": "array"},
    '"values" is missing': {"type": "map"},
    '"fields" is missing': {"type": "record", "name": "R"},
    '"fields" is no list': {"type": "record", "name": "R", "fields": {}},
    "at /fields/0: 'a' is no field": record("a"),
    "is no name of a field": record({"name": "a b", "type": "int"}),
    "two fields 'a'": record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
    'at /fields/0: "type" is missing': record({"name": "a"}),
    "the order 'sideways'": record({"name": "a", "type": "int", "order": "sideways"}),
    "is no name;": {"type": "fixed", "name": "9", "size": 1},
    "in namespace 3 is no name": {"type": "fixed", "name": "F", "size": 1, "namespace": 3},
    "int is a type of Avro, and cannot be defined": {"type": "fixed", "name": "int", "size": 1},
    "the size -1": {"type": "fixed", "name": "F", "size": -1},
    "the size True": {"type": "fixed", "name": "F", "size": True},
    '"symbols" is no list of names': {"type": "enum", "name": "E", "symbols": ["9"]},
    "a symbol is there twice": {"type": "enum", "name": "E", "symbols": ["a", "a"]},
    "is none of the symbols": {"type": "enum", "name": "E", "symbols": ["a"], "default": "b"},
    "the union contains int twice": ["int", "int"],
    "a union contains a union": ["int", ["string"]],
    "R is defined twice": record({"name": "a", "type": record()}),
    '"doc" is no text': record(doc=3),
    '"aliases" is no list of names': record(aliases="A"),
}

#: Types with a default that fits each, and one that does not.
DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("null", None, 0),
    ("boolean", True, 1),
    ("int", (1 << 31) - 1, 1 << 31),
    ("int", 1, True),
    ("long", -(1 << 63), 1 << 63),
    ("float", 1, "1"),
    ("double", 1.5, None),
    ("string", "x", 1),
    ("bytes", "\u00ff", "\u0100"),
    (["null", "int"], 1, "x"),
    ({"type": "array", "items": "int"}, [1], ["x"]),
    ({"type": "map", "values": "int"}, {"a": 1}, {"a": "x"}),
    ({"type": "enum", "name": "E", "symbols": ["a"]}, "a", "b"),
    ({"type": "fixed", "name": "F", "size": 2}, "ab", "abc"),
    ({"type": "record", "name": "I", "fields": [{"name": "i", "type": "int"}]}, {"i": 1}, {}),
    ({"type": "record", "name": "I", "fields": [{"name": "i", "type": "int", "default": 1}]}, {}, []),
]


class ParseAvroTests(SynchronousTestCase):
    """A registry keeps for ever what the parser lets in."""

    def refuse(self, text: str) -> str:
        """Return the text of the refusal."""
        return str(self.assertRaises(InvalidAvroSchema, parse_avro, text))

    def test_a_schema_against_the_specification_is_refused_with_its_place(self) -> None:
        """Each of these is accepted by, or is a TypeError of, one parser or another."""
        for reason, value in REFUSED.items():
            self.assertIn(reason, self.refuse(json.dumps(value)))

    def test_a_default_fits_its_field(self) -> None:
        """A default that does not fit would fail only in a reader, years later."""
        for kind, good, bad in DEFAULTS:
            parse_avro(json.dumps(record({"name": "f", "type": kind, "default": good})))
            refusal = self.refuse(json.dumps(record({"name": "f", "type": kind, "default": bad})))
            self.assertIn("does not fit the field's type", refusal)

    def test_hostile_nesting_is_refused_and_never_an_overflow(self) -> None:
        """Brackets, types and defaults, each nested deeply."""
        array = '{"type":"array","items":'
        nested = "[" * 300 + "]" * 300
        for text in (
            "[" * 100_000,
            "[" * 500 + "]" * 500,
            array * (MOST_LEVELS + 1) + '"int"' + "}" * (MOST_LEVELS + 1),
            '{"type":"int","x":' + nested + "}",
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":' + nested + "}]}",
            '"int',
            "NaN",
            '{"type":"int","type":"int"}',
            '"\\ud800"',
        ):
            self.refuse(text)
        parse_avro(array * MOST_LEVELS + '"int"' + "}" * MOST_LEVELS)

    def test_defaults_take_a_bounded_number_of_comparisons(self) -> None:
        """Some hundred bytes of a default could be compared with two types at each level, and for years."""
        branches = ["null", "A", {"type": "record", "name": "B", "fields": [{"name": "f", "type": ["null", "A", "B"]}]}]
        union = {"type": "record", "name": "A", "fields": [{"name": "f", "type": branches}]}
        deep: Any = "fits nothing"
        for _ in range(18):
            deep = {"f": deep}
        with_defaults = [{"name": f"d{number}", "type": "int", "default": 1} for number in range(1000)]
        several = {"type": "array", "items": record(*with_defaults)}
        fixed = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(1000)]
        for kind, default in (
            (union, deep),
            (several, [{}] * 1000),
            ({"type": "array", "items": [*fixed, "int"]}, [1] * 1000),
        ):
            field: dict[str, Any] = {"name": "f", "type": kind, "default": default}
            self.assertIn("too many", self.refuse(json.dumps(record(field, name="Outer"))))
        symbols = {"type": "enum", "name": "E", "symbols": [f"s{number}" for number in range(5000)]}
        listed = {"name": "f", "type": {"type": "array", "items": symbols}, "default": ["s4999"] * 20_000}
        parse_avro(json.dumps(record(listed)))

    def test_a_name_is_found_in_its_namespace_and_then_without_one(self) -> None:
        """As the implementation in Java does; a record may contain itself."""
        schema = record(
            {"name": "self", "type": ["null", "R"]},
            {"name": "e", "type": {"type": "enum", "name": "x.E", "symbols": ["a"]}},
            {"name": "again", "type": "x.E"},
            namespace="n",
        )
        self.assertEqual(sorted(parse_avro(json.dumps(schema)).defined), ["n.R", "x.E"])
        fixed = {"type": "fixed", "name": "F", "size": 1}
        inner = {"type": "record", "name": "n.I", "fields": [{"name": "f", "type": "F"}]}
        parse_avro(json.dumps([fixed, inner]))

    def test_types_of_references_are_known_and_not_defined(self) -> None:
        """A type of a reference cannot be defined again."""
        known = parse_avro(json.dumps({"type": "fixed", "name": "a.F", "size": 4})).known
        schema = parse_avro(json.dumps(record({"name": "f", "type": "a.F"})), known)
        self.assertEqual((list(schema.defined), sorted(schema.known)), (["R"], ["R", "a.F"]))
        again = json.dumps({"type": "fixed", "name": "a.F", "size": 4})
        self.assertIn("defined twice", str(self.assertRaises(InvalidAvroSchema, parse_avro, again, known)))
