"""Tests of the text of a schema, alone and beside fastavro's canonical form."""

from __future__ import annotations

import json
from importlib.util import find_spec
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.schema_registry.avro.parsing import parse_avro
from logd.schema_registry.avro.text import avro_text
from tests.schema_registry.avro.random_schemas import random_schema


class AvroTextTests(SynchronousTestCase):
    """Two texts of one schema become one text."""

    def test_spelling_makes_no_difference(self) -> None:
        """Whitespace, order of attributes, objects for names, full names for short ones."""
        one = """ {"fields": [ {"type": {"type": "string"}, "name": "a"}, {"name": "n", "type": ["null", "x.R"]} ],
                   "namespace": "x", "type": "record", "name": "R"} """
        other = (
            '{"type":"record","name":"x.R","fields":[{"name":"a","type":"string"},{"name":"n","type":["null","R"]}]}'
        )
        text = avro_text(parse_avro(one))
        self.assertEqual(text, avro_text(parse_avro(other)))
        self.assertEqual(
            text,
            '{"type":"record","name":"R","namespace":"x","fields":['
            '{"name":"a","type":"string"},{"name":"n","type":["null","R"]}]}',
        )

    def test_all_that_a_schema_says_is_kept(self) -> None:
        """Documentation, defaults, orders, aliases and properties; the text of a text is the same."""
        schema = {
            "type": "record",
            "name": "R",
            "namespace": "n",
            "doc": "caf\u00e9",
            "fields": [
                {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}, "doc": "when"},
                {"name": "d", "type": ["null", "int"], "default": None, "order": "ignore", "aliases": ["e"], "pii": 1},
                {
                    "name": "s",
                    "type": {"type": "enum", "name": "E", "namespace": "m", "symbols": ["A"], "default": "A"},
                },
                {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
                {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "m.E", "p": []}}},
            ],
            "owner": {"team": ["a"]},
            "aliases": ["Q", "o.P"],
        }
        text = avro_text(parse_avro(json.dumps(schema)))
        self.assertEqual(json.loads(text), {**schema, "aliases": ["Q", "o.P"]})
        self.assertEqual(avro_text(parse_avro(text)), text)
        self.assertIn("caf\u00e9", text)

    def test_only_normalizing_sorts_properties(self) -> None:
        """Otherwise they stay in their order, and make another schema of it."""
        schema = parse_avro('{"type":"int","z":1,"a":2}')
        self.assertEqual(avro_text(schema), '{"type":"int","z":1,"a":2}')
        self.assertEqual(avro_text(schema, normalize=True), '{"type":"int","a":2,"z":1}')

    def test_the_text_is_the_same_schema_for_fastavro(self) -> None:
        """By the Parsing Canonical Form of random schemas, and of their texts."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        from fastavro.schema import to_parsing_canonical_form

        for seed in range(300):
            schema = random_schema(Random(seed), [])
            text = avro_text(parse_avro(json.dumps(schema)))
            self.assertEqual(to_parsing_canonical_form(json.loads(text)), to_parsing_canonical_form(schema), seed)
            self.assertEqual(avro_text(parse_avro(text)), text)
