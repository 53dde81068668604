"""Several registries change the same subjects while connections break: random lives, by seed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.coord.errors import CoordinationError
from logd.coord.records import Operation
from logd.schema_registry.errors import IncompatibleSchema, InvalidSchema, ReferenceExists, SchemaRegistryError
from logd.schema_registry.levels import CompatibilityLevel
from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.tree.changes import RegistryChanges
from tests.schema_registry.rig import SchemaRegistryTestCase, record, referring

SEEDS = 10


class InterleavedTests(SchemaRegistryTestCase):
    """Another registry commits between the reading and the commit of a change."""

    def between(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Do ``work`` before the next commit of any registry."""
        commit = RegistryChanges.commit
        waiting = [work]

        async def after(changes: RegistryChanges, operations: Sequence[Operation]) -> None:
            if waiting:
                await waiting.pop()()
            await commit(changes, operations)

        self.patch(RegistryChanges, "commit", after)

    def test_a_reference_registered_during_a_deletion_refuses_it(self) -> None:
        """Softly and for good."""
        other = self.another().registration
        schema = record("r:R", name="C", **referring(("R", "a", 1)))
        self.register("a", record("x"))
        self.between(lambda: other.register("c", schema))
        self.refusal(self.registry.deletion.delete_version("a", 1), ReferenceExists)
        self.require_whole()

    def test_a_deletion_during_a_registration_refuses_the_reference(self) -> None:
        """The schema that is referred to has gone before the commit."""
        other = self.another().deletion
        self.register("a", record("x"))
        self.between(lambda: other.delete_version("a", 1))
        schema = record("r:R", name="C", **referring(("R", "a", 1)))
        self.refusal(self.registry.registration.register("c", schema), InvalidSchema)
        self.require_whole()

    def test_a_level_set_during_a_registration_counts(self) -> None:
        """For the subject and for the registry."""
        other = self.another().settings
        for number, subject in enumerate([None, "a"]):
            self.outcome(other.set_compatibility("a", CompatibilityLevel.NONE))
            self.outcome(other.set_compatibility(None, CompatibilityLevel.NONE))
            if subject is None:
                self.outcome(other.delete_compatibility("a"))
            self.register("a", record(f"x{number}"))
            self.between(partial(other.set_compatibility, subject, CompatibilityLevel.FULL))
            doing = self.registry.registration.register("a", record(f"y{number}"))
            self.refusal(doing, IncompatibleSchema)

    def test_a_schema_deleted_for_good_during_its_registration_gets_a_new_id(self) -> None:
        """The id that was found is not used for a node that is gone."""
        other = self.another().deletion
        self.register("a", record("x"))
        self.outcome(other.delete_subject("a"))
        self.between(lambda: other.delete_subject("a", permanent=True))
        self.assertEqual(self.register("b", record("x")), 2)
        self.require_whole()


class RaceTests(SchemaRegistryTestCase):
    """The tree decides."""

    def test_competing_registrations_give_each_schema_one_id(self) -> None:
        """200 over two registries: 20 schemas, each ten times, in five subjects."""
        registries = [self.another(), self.another()]
        doing = []
        for number in range(200):
            schema = record(f"f{number % 20}=1")
            registering = registries[number % 2 ^ number // 20 % 2].registration.register(f"s{number % 5}", schema)
            doing.append((number % 20, Deferred.fromCoroutine(registering)))
        for _ in range(10):
            self.settle()
        ids: dict[int, set[int]] = {}
        for schema_number, each in doing:
            ids.setdefault(schema_number, set()).add(self.successResultOf(each))
        self.assertEqual(sorted(ids.values(), key=min), [{number} for number in range(1, 21)])
        self.require_whole()

    def test_random_lives_leave_no_id_twice_and_nothing_half_made(self) -> None:
        """Registrations, with references too, and deletions; each answer that names an id names it for ever."""
        for seed in range(SEEDS):
            self.live(seed)

    def live(self, seed: int) -> None:
        """Run one life, and compare all that was answered with the tree."""
        random = Random(seed)
        super().setUp()
        trees = [self.client() for _ in range(3)]
        registries = [self.another(tree) for tree in trees]
        for tree in trees:
            tree.link.delay = lambda: random.random() * 0.05
        texts: dict[int, str] = {}
        doing: list[Deferred[Any]] = []
        for _ in range(60):
            if random.random() < 0.1:
                random.choice(trees).link.cut()
            doing.append(self.something(random, random.choice(registries), texts))
            self.pass_time(random.choice([0.1, 0.1, 0.1, 0.3]))
        for _ in range(600):
            if not all(each.called for each in doing):
                self.pass_time(1)
        for each in doing:
            self.assertTrue(each.called, f"seed {seed}: an operation hangs")
            self.successResultOf(each)
        self.require_whole()

    def something(self, random: Random, registry: SchemaRegistry, texts: dict[int, str]) -> Deferred[Any]:
        """Begin an operation."""
        subject = random.choice("ab")
        if random.random() < 0.6:
            schema = record(*random.sample(["x=1", "y=1", "z=1"], random.randint(0, 3)))
            if random.random() < 0.3:
                subject = "c"
                schema = record("r:R", name="C", **referring(("R", random.choice("ab"), -1)))

            def registered(schema_id: int) -> None:
                key = f"{schema.text} {schema.references and schema_id}"
                self.assertEqual(texts.setdefault(schema_id, key), key, f"id {schema_id} is two schemas")

            doing: Deferred[Any] = Deferred.fromCoroutine(registry.registration.register(subject, schema))
            doing.addCallback(registered)
        elif random.random() < 0.5:
            subject = random.choice("abc")
            doing = Deferred.fromCoroutine(registry.deletion.delete_subject(subject, random.random() < 0.5))
        else:
            version = random.choice([None, 1, 2, 3])
            doing = Deferred.fromCoroutine(registry.deletion.delete_version(subject, version, random.random() < 0.5))
        return doing.addErrback(self.expected)

    def expected(self, failure: Failure) -> None:
        """Pass refusals and lost connections; nothing else may happen."""
        failure.trap(SchemaRegistryError, CoordinationError)
