"""Schema registries over one tree in memory, and a comparison of all their nodes with one another."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logd.schema_registry.registration import NewSchema
from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.schemas import SchemaReference, parse_schema
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.records import SubjectState, decode_schema
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.registries.rig import RegistryTestCase


def record(*fields: str, name: str = "R", **more: Any) -> NewSchema:
    """Return a record with fields of type int; a field "x=1" has a default, "x:T" has the type T."""
    rows = []
    for each in fields:
        each, _, default = each.partition("=")
        each, _, kind = each.partition(":")
        rows.append({"name": each, "type": kind or "int", **({"default": int(default)} if default else {})})
    return NewSchema(json.dumps({"type": "record", "name": name, "fields": rows}), **more)


def referring(*references: tuple[str, str, int]) -> dict[str, Any]:
    """Return the argument for these references: name, subject and version."""
    return {"references": tuple(SchemaReference(*each) for each in references)}


class SchemaRegistryTestCase(RegistryTestCase):
    """A test with registries that ``registry`` makes; the first is ``self.registry``."""

    def setUp(self) -> None:
        """Make the tree and a registry."""
        super().setUp()
        self.registry = self.another()

    def another(self, coordination: InProcessCoordination | None = None) -> SchemaRegistry:
        """Return one more registry over the same tree, with a client of its own."""
        registry = SchemaRegistry(coordination or self.client(), self.clock)
        self.addCleanup(registry.close)
        return registry

    def settle(self) -> None:
        """Let everything happen, pauses between attempts included."""
        for _ in range(300):
            self.clock.advance(0)
        self.pass_time(1)

    def register(self, subject: str, schema: NewSchema, normalize: bool = False) -> int:
        """Register a schema; return its id."""
        found = self.outcome(self.registry.registration.register(subject, schema, normalize))
        assert isinstance(found, int)
        return found

    def refusal(self, doing: Any, *expected: type[BaseException]) -> str:
        """Return the text of an error of one of these classes."""
        error = self.error(doing)
        self.assertIsInstance(error, expected)
        return str(error)

    def read(self, deferred: Deferred[Any]) -> Any:
        """Return an answer of the tree."""
        return self.outcome(deferred)

    def require_whole(self) -> dict[int, str]:
        """Compare every node with the others; return the texts of the schemas by id."""
        names = self.read(self.tree.get_children(paths.SUBJECTS))
        ids = sorted(int(each) for each in self.read(self.tree.get_children(paths.IDS)))
        last = int(self.read(self.tree.get(paths.LAST_ID))[0])
        self.assertTrue(all(each <= last for each in ids), f"{ids} beyond {last}")
        schemas = {each: decode_schema(self.read(self.tree.get(paths.id_node(each)))[0]) for each in ids}
        used: dict[int, set[str]] = {each: set() for each in ids}
        versions = set()
        for name in names:
            state = SubjectState.decode(self.read(self.tree.get(f"{paths.SUBJECTS}/{name}"))[0])
            for version in state.versions:
                used[version.id].add(name)
                versions.add(f"{name}/{version.version}")
        for schema_id in ids:
            listed = set(self.read(self.tree.get_children(paths.id_node(schema_id))))
            self.assertEqual(listed, used[schema_id], f"subjects of {schema_id}")
            self.assertTrue(listed, f"{schema_id} is used by no subject")
        digests = self.read(self.tree.get_children(paths.DIGESTS))
        by_digest = {each: int(self.read(self.tree.get(paths.digest_node(each)))[0]) for each in digests}
        self.assertEqual(sorted(by_digest.values()), ids, "one digest for each id")
        for digest, schema_id in by_digest.items():
            stored = schemas[schema_id]
            if not stored.references:
                self.assertEqual(parse_schema(stored.type, stored.text).digest, digest)
        references = {
            f"{paths.segment(each.subject)}/{each.version}.{schema_id}"
            for schema_id, stored in schemas.items()
            for each in stored.references
        }
        found = {
            f"{subject}/{each}"
            for subject in self.read(self.tree.get_children(paths.REFERENCES))
            for each in self.read(self.tree.get_children(f"{paths.REFERENCES}/{subject}"))
        }
        self.assertEqual(found, references)
        missing = {each.partition(".")[0] for each in references} - versions
        self.assertFalse(missing, "a schema refers to what is gone")
        return {schema_id: stored.text for schema_id, stored in schemas.items()}
