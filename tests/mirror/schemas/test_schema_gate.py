"""Tests of logd.mirror.schemas.schema_gate without registries: who is asked for which schema, and in which order."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.mirror.schemas.schema_copier import SchemaCopier
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.topic import TopicPartition

WHERE, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)


class SchemaGateTests(SynchronousTestCase):
    """``SchemaGate``, with this test case as the copier."""

    def setUp(self) -> None:
        """Make the gate."""
        self.asked: list[tuple[int, Deferred[bool]]] = []
        self.gate = SchemaGate(Clock(), cast(SchemaCopier, self), lambda: 0.0)

    async def copy(self, schema_id: int) -> bool:
        """Copy a schema once the test says so."""
        copying: Deferred[bool] = Deferred()
        self.asked.append((schema_id, copying))
        return await copying

    def ids(self) -> list[int]:
        """Return the ids of the schemas that were asked for."""
        return [schema_id for schema_id, _ in self.asked]

    def wait(self, where: TopicPartition, named: set[int]) -> Deferred[None]:
        """Wait for schemas that are not copied."""
        waiting = self.gate.wait(where, named)
        assert waiting is not None
        return waiting

    def test_a_set_that_names_very_many_asks_for_one_after_the_other(self) -> None:
        """Payloads of another kind may look so: 150,000 at once held the reactor for seconds, and all others."""
        many = self.wait(WHERE, set(range(1, 100_001)))
        other = self.wait(OTHER, {200_000})
        self.assertEqual((self.ids(), len(self.gate._background)), ([1], 2))
        self.asked[0][1].callback(False)
        self.asked[1][1].callback(True)
        self.successResultOf(other)
        self.asked[2][1].callback(True)
        self.assertEqual(self.ids(), [1, 200_000, 2, 3])
        self.assertNoResult(many)
        many.cancel()
        self.failureResultOf(many, CancelledError)
        self.asked[3][1].callback(True)
        self.assertEqual(len(self.gate._background), 0)

    def test_schemas_that_are_copied_meanwhile_are_not_asked_for(self) -> None:
        """Another partition may have named them."""
        both = self.wait(WHERE, {1, 2})
        second = self.wait(OTHER, {2})
        for number in range(2):
            self.asked[number][1].callback(True)
        self.successResultOf(both)
        self.successResultOf(second)
        self.assertEqual(self.ids(), [1, 2])

    def test_a_bug_does_not_stop_those_who_wait_again_at_once(self) -> None:
        """The schema is asked for again."""
        again: list[Deferred[None]] = []
        failures: list[Failure] = []
        first = self.wait(WHERE, {1})
        first.addErrback(failures.append).addCallback(lambda _: again.append(self.wait(OTHER, {1})))
        self.asked[0][1].errback(ValueError("a bug"))
        self.assertTrue(failures[0].check(ValueError))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.asked[1][1].callback(True)
        self.successResultOf(again[0])
