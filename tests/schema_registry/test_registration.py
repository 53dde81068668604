"""Tests of registration and look-up: ids, versions, compatibility, references, modes, limits."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logd.coord.errors import CoordinationError
from logd.schema_registry.errors import (
    BrokenRegistry,
    IncompatibleSchema,
    InvalidSchema,
    InvalidSubject,
    OperationNotPermitted,
    RegistryBusy,
    SchemaNotFound,
    SubjectNotFound,
    VersionNotFound,
)
from logd.schema_registry.levels import CompatibilityLevel, RegistryMode
from logd.schema_registry.lru import LruCache
from logd.schema_registry.registration import NewSchema
from logd.schema_registry.schemas import MOST_BYTES
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.changes import TURN_SECONDS
from logd.testing.inprocess.client import InProcessCoordination
from tests.schema_registry.rig import SchemaRegistryTestCase, record, referring


class RegisterTests(SchemaRegistryTestCase):
    """A schema has one id for ever, and each subject counts its versions."""

    def test_one_schema_has_one_id_in_all_subjects(self) -> None:
        """However it is spelled; another schema has another id, and versions count for each subject."""
        self.assertEqual(self.register("a", record("x")), 1)
        self.assertEqual(self.register("a", record("x")), 1)
        self.assertEqual(self.register("b", NewSchema(record("x").text.replace(" ", "\n "))), 1)
        self.assertEqual(self.register("b", record("x", "y=1")), 2)
        self.assertEqual(self.register("a", record("x", "y=1")), 2)
        versions = self.outcome(self.registry.queries.versions("a"))
        self.assertEqual([(each.version, each.id) for each in versions], [(1, 1), (2, 2)])
        self.require_whole()

    def test_a_schema_that_no_request_to_the_tree_can_hold_is_refused(self) -> None:
        """ZooKeeper ends a connection for a request of more than 1 MiB, and a broker may do other things over it."""
        self.register("a", record("x"))
        long = record("x", name="L", **referring(("n" * 700_000, "a", 1)))
        self.assertIn("bytes", self.refusal(self.registry.registration.register("b", long), InvalidSchema))
        numbers = "[" + ",".join(["1e15"] * 50_000) + "]"
        field = f'{{"name":"f","type":{{"type":"array","items":"double"}},"default":{numbers}}}'
        grown = NewSchema(f'{{"type":"record","name":"G","fields":[{field}]}}')
        self.refusal(self.registry.registration.register("b", grown), InvalidSchema)
        self.require_whole()

    def test_a_schema_that_could_not_be_read_again_is_refused(self) -> None:
        """Its numbers are longer as they are stored; no other version could follow it."""
        numbers = "[" + ",".join(["1e15"] * 20_000) + "]"
        field = f'{{"name":"f","type":{{"type":"array","items":"double"}},"default":{numbers}}}'
        grown = NewSchema(f'{{"type":"record","name":"G","fields":[{field}]}}')
        text = self.refusal(self.registry.registration.register("a", grown), InvalidSchema)
        self.assertIn("written out", text)

    def test_a_registration_of_what_is_registered_writes_nothing(self) -> None:
        """Producers register their schemas at every start."""
        self.register("a", record("x"))
        before = self.read(self.tree.get(paths.subject_node("a")))[1].modified_zxid
        another = self.another()
        for registry in (self.registry, another, another):
            self.assertEqual(self.outcome(registry.registration.register("a", record("x"))), 1)
        self.assertEqual(self.read(self.tree.get(paths.subject_node("a")))[1].modified_zxid, before)

    def test_an_incompatible_schema_is_refused_with_the_reasons(self) -> None:
        """The words are those of Confluent's registry; nothing is changed."""
        self.register("a", record("x"))
        doing = self.registry.registration.register("a", record("x", "y"))
        self.assertEqual(
            self.refusal(doing, IncompatibleSchema),
            'Schema being registered is incompatible with an earlier schema for subject "a", details: ['
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'y' at path '/fields/1' in the "
            "new schema has no default value and is missing in the old schema', additionalInfo:'y'}, "
            "{oldSchemaVersion: 1}, "
            '{oldSchema: \'{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}\'}, '
            "{validateFields: 'false', compatibility: 'BACKWARD'}]",
        )
        self.assertEqual(list(self.require_whole()), [1])

    def test_a_level_decides_what_is_compared_with_what(self) -> None:
        """Three versions; a new one that breaks with the latest or only with the first, backward or forward."""
        levels = CompatibilityLevel
        self.outcome(self.registry.settings.set_compatibility("a", levels.NONE))
        for fields in (("x", "y"), ("x", "y=1"), ("x",)):
            self.register("a", record(*fields))
        needs_new = record("x", "z")  # cannot read the latest
        drops = record("y")  # the latest cannot read it
        back = record("x", "y=2")  # reads all; the first reads it
        for schema, refused in (
            (
                needs_new,
                {levels.BACKWARD, levels.BACKWARD_TRANSITIVE, levels.FULL, levels.FULL_TRANSITIVE}
                | {levels.FORWARD_TRANSITIVE},
            ),
            (drops, set(levels) - {levels.NONE}),
            (back, set()),
            (record("x", "w=1"), {levels.FORWARD_TRANSITIVE, levels.FULL_TRANSITIVE}),
        ):
            for level in levels:
                self.outcome(self.registry.settings.set_compatibility("a", level))
                parsed = self.outcome(self.registry.registration.parse(schema))
                reasons = self.outcome(self.registry.queries.compatibility("a", parsed, None, every=True))
                self.assertEqual(bool(reasons), level in refused, (schema.text, level))

    def test_json_schemas_are_compared_for_equality(self) -> None:
        """The order of keys makes no difference; the text is kept as it came."""
        one = NewSchema('{"type": "object", "title": "t"}', "JSON")
        self.assertEqual(self.register("j", one), 1)
        self.assertEqual(self.register("k", NewSchema('{"title":"t","type":"object"}', "JSON")), 1)
        stored = self.outcome(self.registry.queries.schema(1))
        self.assertEqual((stored.type, stored.text), ("JSON", '{"type":"object","title":"t"}'))
        doing = self.registry.registration.register("j", NewSchema("true", "JSON"))
        self.assertIn("only if they are equal", self.refusal(doing, IncompatibleSchema))
        doing = self.registry.registration.register("j", record("x"))
        self.assertIn("different schema type", self.refusal(doing, IncompatibleSchema))

    def test_what_is_no_schema_is_refused(self) -> None:
        """Type, JSON, size, and names of subjects that would leave their place in the tree are harmless."""
        register = self.registry.registration.register
        for schema in (
            NewSchema("{"),
            NewSchema("3", "JSON"),
            NewSchema("message M {}", "PROTOBUF"),
            NewSchema('{"type":"int","p":"' + "x" * MOST_BYTES + '"}'),
            NewSchema('"\ud800"'),
        ):
            self.refusal(register("a", schema), InvalidSchema)
        for subject in ("", "a\n", "x" * 600, ":.other:a", "\ud800"):
            self.refusal(register(subject, record("x")), InvalidSubject)
        for subject in ("..", ".", "a/b", "%2F", "caf\u00e9", "a b"):
            self.register(subject, record("x"))
            self.assertIn(subject, self.outcome(self.registry.queries.subjects()))
        self.require_whole()

    def test_a_broken_node_is_an_error_that_names_it(self) -> None:
        """Other subjects stay usable."""
        self.register("a", record("x"))
        self.register("b", record("x"))
        self.read(self.tree.set(paths.subject_node("a"), b'{"versions": 1}'))
        refusal = self.refusal(self.registry.registration.register("a", record("y")), BrokenRegistry)
        self.assertIn("/schemas/subjects/a", refusal)
        self.register("b", record("x", "y=1"))


class LookUpTests(SchemaRegistryTestCase):
    """A schema is found by its text."""

    def test_a_schema_is_found_in_its_subject(self) -> None:
        """Another registry finds it at once; a schema of another subject is not found."""
        self.register("a", record("x"))
        self.register("b", record("y"))
        another = self.another().registration
        version, stored = self.outcome(another.look_up("a", record("x")))
        self.assertEqual((version.version, version.id), (1, 1))
        self.assertIn('"x"', stored.text)
        self.refusal(another.look_up("a", record("y")), SchemaNotFound)
        self.refusal(another.look_up("c", record("y")), SubjectNotFound)

    def test_another_registry_sees_a_change_by_its_watch(self) -> None:
        """Nodes that it has read before are read again once they have changed."""
        another = self.another().queries
        self.register("a", record("x"))
        self.assertEqual(len(self.outcome(another.versions("a"))), 1)
        self.register("a", record("x", "y=1"))
        self.assertEqual(len(self.outcome(another.versions("a"))), 2)
        self.assertEqual(self.outcome(another.subjects()), ["a"])

    def test_a_version_of_another_registry_is_found_before_its_watch_fires(self) -> None:
        """A schema that refers to it may be known already, and its messages would be skipped."""
        tree = InProcessCoordination(self.host, self.clock, 60.0)  # else such delays would end its connection
        tree.connect()
        other = self.another(tree)
        self.register("a", record("x"))
        self.outcome(other.queries.version("a", 1))
        tree.link.delay = lambda: 1.5
        self.register("a", record("x", "y=1"))
        asked = Deferred.fromCoroutine(other.queries.version("a", 2))
        self.pass_time(20)
        self.assertEqual(self.successResultOf(asked)[0].version, 2)
        self.refusal(self.registry.queries.version("a", 3), VersionNotFound)


class ReferenceTests(SchemaRegistryTestCase):
    """Schemas of schemas."""

    def test_a_type_is_found_in_a_reference_and_in_its_references(self) -> None:
        """A chain of three, and a diamond; -1 is the latest version."""
        self.register("c", record("x", name="C"))
        self.register("b", record("c:C", name="B", **referring(("C", "c", 1))))
        schema = record("b:B", "c:C", name="A", **referring(("B", "b", -1), ("C", "c", 1)))
        schema_id = self.register("a", schema)
        stored = self.outcome(self.another().queries.schema(schema_id))
        self.assertEqual([each.version for each in stored.references], [1, 1])
        self.assertEqual(self.outcome(self.registry.queries.referenced_by("c", 1)), [2, 3])
        self.assertEqual(self.register("a", schema), schema_id)
        self.require_whole()

    def test_a_version_may_define_several_types_that_are_referred_to(self) -> None:
        """Each has a reference of its own, by custom; both go with the schema."""
        inner = json.loads(record("x", name="B").text)
        both = json.dumps({"type": "record", "name": "A", "fields": [{"name": "b", "type": inner}]})
        self.register("types", NewSchema(both))
        references = referring(("A", "types", 1), ("B", "types", 1))
        schema_id = self.register("c", record("a:A", "b:B", name="C", **references))
        self.require_whole()
        self.assertEqual(self.outcome(self.registry.queries.referenced_by("types", 1)), [schema_id])
        for permanent in (False, True):
            self.outcome(self.registry.deletion.delete_subject("c", permanent))
        self.require_whole()

    def test_what_is_referred_to_in_many_ways_is_loaded_once(self) -> None:
        """Large schemas do not stay in the cache; three at each level would be loaded 3^7 times."""
        references: list[tuple[str, str, int]] = []
        for level in range(7):
            for name in "abc":
                text = f'{{"title":"{level}{name}"}}'
                self.register(f"{name}{level}", NewSchema(text, "JSON", **referring(*references)))
            references = [(name, f"{name}{level}", 1) for name in "abc"]
        loader = self.registry.registration._loader
        loader._parsed = LruCache(0)
        read: list[str] = []
        kept = loader._reader.fresh_subject

        async def noted(subject: str) -> Any:
            read.append(subject)
            return await kept(subject)

        self.patch(loader._reader, "fresh_subject", noted)
        self.outcome(self.registry.registration.parse(NewSchema("true", "JSON", **referring(*references))))
        self.assertEqual(len(read), 3 + 3 * 3 * 6)

    def test_compatibility_looks_into_references(self) -> None:
        """The record refers to another version of a type that has a new field."""
        self.register("c", record("x", name="C"))
        self.outcome(self.registry.settings.set_compatibility("c", CompatibilityLevel.NONE))
        self.register("c", record("x", "y", name="C"))
        self.register("a", record("c:C", name="A", **referring(("C", "c", 1))))
        doing = self.registry.registration.register("a", record("c:C", name="A", **referring(("C", "c", 2))))
        self.assertIn("/fields/0/type/fields/1", self.refusal(doing, IncompatibleSchema))

    def test_a_reference_to_nothing_is_refused(self) -> None:
        """No subject, no version, a type that the reference does not define, two definitions of one name."""
        self.register("c", record("x", name="C"))
        self.register("d", record("y", name="C"))
        for schema in (
            record("c:C", **referring(("C", "e", 1))),
            record("c:C", **referring(("C", "c", 2))),
            record("c:D", **referring(("D", "c", 1))),
            record("c:C", **referring(("C", "c", 1), ("C", "d", 1))),
            record("c:C", **referring(*[("C", "c", 1)] * 200)),
        ):
            self.refusal(self.registry.registration.register("a", schema), InvalidSchema)


class ModeTests(SchemaRegistryTestCase):
    """Modes permit and forbid changes."""

    def test_read_only_refuses_new_versions(self) -> None:
        """For a subject, for all without a mode of their own, and with override for all."""
        settings, register = self.registry.settings, self.registry.registration.register
        self.register("a", record("x"))
        new = record("x", "y=1")
        self.outcome(settings.set_mode("a", RegistryMode.READONLY))
        self.refusal(register("a", new), OperationNotPermitted)
        self.assertEqual(self.register("a", record("x")), 1)
        self.outcome(settings.set_mode(None, RegistryMode.READONLY))
        self.outcome(settings.set_mode("a", RegistryMode.READWRITE))
        self.register("a", new)
        self.refusal(register("b", new), OperationNotPermitted)
        self.outcome(settings.set_mode(None, RegistryMode.READONLY_OVERRIDE))
        self.refusal(register("a", record("x", "y=1", "z=1")), OperationNotPermitted)
        self.refusal(self.registry.deletion.delete_subject("a"), OperationNotPermitted)

    def test_an_import_keeps_ids_and_versions_and_takes_no_id_from_another_schema(self) -> None:
        """Later ids are above all that were imported."""
        settings, register = self.registry.settings, self.registry.registration.register
        self.refusal(register("a", record("x", id=7)), OperationNotPermitted)
        self.outcome(settings.set_mode("a", RegistryMode.IMPORT))
        self.assertEqual(self.register("a", record("x", id=70, version=3)), 70)
        self.assertEqual(self.register("a", record("y", id=7, version=1)), 7)
        for schema in (record("z", id=70), record("z"), record("x", id=8), record("z", id=9, version=3)):
            self.refusal(register("a", schema), OperationNotPermitted)
        self.assertEqual(self.register("b", record("z")), 71)
        self.refusal(settings.set_mode("b", RegistryMode.IMPORT), OperationNotPermitted)
        self.outcome(settings.set_mode("b", RegistryMode.IMPORT, force=True))
        self.require_whole()


class LostAnswerTests(SchemaRegistryTestCase):
    """The connection to the tree breaks at any moment."""

    def test_a_registration_whose_answer_is_lost_gives_one_id(self) -> None:
        """Cut after each tenth of the way: the retry finds what was done."""
        for number in range(1, 60):
            tree = self.client()
            registry = self.another(tree)
            tree.link.delay = lambda: 0.05
            self.clock.callLater(0.01 * number, tree.link.cut)
            schema = record(f"f{number}")
            doing = Deferred.fromCoroutine(registry.registration.register(f"s{number}", schema))
            self.pass_time(8)
            self.assertEqual(self.successResultOf(doing), number)
        self.assertEqual(sorted(self.require_whole()), list(range(1, 60)))

    def test_no_registration_waits_for_more_than_its_turn_and_one_call(self) -> None:
        """While the tree is away: twenty of them are over after their turn, not after twenty timeouts of a call."""
        tree = self.client()
        registry = self.another(tree)
        self.outcome(registry.registration.register("a", record("first")))
        tree.link.reachable = False
        tree.link.cut()
        doing = [Deferred.fromCoroutine(registry.registration.register("a", record(f"f{each}"))) for each in range(20)]
        self.pass_time(TURN_SECONDS + 10 + 1)
        busy = [self.failureResultOf(each).trap(CoordinationError, RegistryBusy) for each in doing].count(RegistryBusy)
        self.assertGreater(busy, 10)
        tree.link.reachable = True
        self.pass_time(5)
        self.assertEqual(self.outcome(registry.registration.register("a", record("first", "second=1"))), 2)
        self.require_whole()
