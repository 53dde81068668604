"""Tests of logd.mirror.schemas between two registries in this process: what is copied, what is refused, what waits."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from logd.avro.answers import RegistryRefusal, RegistryUnavailable, read_answer
from logd.avro.registry_requests import RegistryRequests
from logd.errors import ConfigurationError
from logd.mirror.schemas.registry_pair import RegistryPair
from logd.mirror.schemas.schema_copier import SchemaConflict, SchemaCopier
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.topic import TopicPartition
from tests.schema_registry.rest.rig import RestTestCase, avro, net

WHERE, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)


class _Target(RestTestCase):
    """The second registry of a test."""

    def runTest(self) -> None:  # noqa: N802  # unittest asks for it
        """Be no test."""


class SchemaCopyTestCase(RestTestCase):
    """A test with this registry as the source, and another one."""

    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        """Start both."""
        await super().setUp()
        self.target = _Target()
        await self.target.setUp()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.target.stop()))
        self.copier = SchemaCopier(self.requests(self), self.requests(self.target))
        self.addCleanup(lambda: Deferred.fromCoroutine(self.copier.close()))

    def requests(self, registry: RestTestCase) -> RegistryRequests:
        """Return a client of a registry."""
        return RegistryRequests(f"http://127.0.0.1:{registry.port.getHost().port}/", reactor=net)

    async def conflict(self, schema_id: int) -> str:
        """Return the text of the conflict in which a copy ends."""
        try:
            await self.copier.copy(schema_id)
        except SchemaConflict as error:
            return str(error)
        raise AssertionError("copied")


class SchemaCopierTests(SchemaCopyTestCase):
    """``SchemaCopier``."""

    async def test_a_subject_is_copied_with_its_versions_and_ids(self) -> None:
        """Those that it refers to come first; a later version comes when it is named."""
        await self.register("others", avro("z"))
        await self.register("a", avro("x", name="A"))
        references = [{"name": "A", "subject": "a", "version": 1}]
        await self.register("b-value", avro("a:A", name="B"), references=references)
        newest = await self.register("b-value", avro("a:A", "y=1", name="B"), references=references)
        await self.register("c/käse", avro("x", name="A"))
        self.assertTrue(await self.copier.copy(newest))
        for path in ("/subjects/b-value/versions/1", "/subjects/b-value/versions/2", "/subjects/a/versions/1"):
            self.assertEqual(await self.target.get(path), await self.get(path))
        self.assertEqual(await self.target.get("/subjects"), ["a", "b-value"])
        self.assertEqual((await self.target.get("/mode/b-value"))["mode"], "IMPORT")
        later = await self.register("b-value", avro("a:A", "y=1", "w=2", name="B"), references=references)
        self.assertTrue(await self.copier.copy(later))
        self.assertEqual(await self.target.get("/subjects/b-value/versions"), [1, 2, 3])
        await self.copier.copy(2)
        self.assertIn("c/käse", await self.target.get("/subjects"))

    async def test_two_mirrors_and_a_second_life_agree(self) -> None:
        """The copy that is there already is compared, and no error."""
        one = await self.register("t-value", avro("x"))
        two = await self.register("t-value", avro("x", "y=1"))
        another = SchemaCopier(self.requests(self), self.requests(self.target))
        self.addCleanup(lambda: Deferred.fromCoroutine(another.close()))
        copies = [Deferred.fromCoroutine(each.copy(two)) for each in (self.copier, another)]
        self.assertEqual([await each for each in copies], [True, True])
        third = SchemaCopier(self.requests(self), self.requests(self.target))
        self.addCleanup(lambda: Deferred.fromCoroutine(third.close()))
        self.assertTrue(await third.copy(one))
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1, 2])

    async def test_another_mirror_that_copies_a_subject_meanwhile(self) -> None:
        """It gave the subject its mode and schemas after this one had asked for the mode, and before it changed it."""
        one = await self.register("t-value", avro("x"))
        another = SchemaCopier(self.requests(self), self.requests(self.target))
        self.addCleanup(lambda: Deferred.fromCoroutine(another.close()))
        asking = self.copier.target.ask

        async def ask(method: str, path: str, body: Any = None) -> Any:
            if method == "PUT":
                self.assertTrue(await another.copy(one))
            return await asking(method, path, body)

        self.patch(self.copier.target, "ask", ask)
        self.assertTrue(await self.copier.copy(one))
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1])

    async def test_an_id_that_no_schema_has_is_no_error(self) -> None:
        """Bytes that only look like a schema's id."""
        self.assertFalse(await self.copier.copy(77))

    async def test_an_id_that_another_schema_has_is_refused(self) -> None:
        """The text names both, and the target is as it was."""
        schema_id = await self.register("t-value", avro("x"))
        self.assertEqual(await self.target.register("own", avro("z")), schema_id)
        text = await self.conflict(schema_id)
        for part in (f"schema {schema_id} of", "'t-value'", "to another schema", "one registry"):
            self.assertIn(part, text)
        self.assertEqual(await self.target.get("/subjects"), ["own"])

    async def test_a_conflict_of_one_version_keeps_no_other_version_back(self) -> None:
        """Messages that name the other one go on."""
        one = await self.register("t-value", avro("x"))
        two = await self.register("t-value", avro("x", "y=1"))
        await self.target.ask("PUT", "/mode/own", {"mode": "IMPORT"})
        self.assertEqual(await self.target.register("own", avro("z"), id=two), two)
        self.assertTrue(await self.copier.copy(one))
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1])
        self.assertIn("to another schema", await self.conflict(two))

    async def test_versions_that_a_registry_did_not_give_are_copied_later(self) -> None:
        """It went away when the version that is named was copied, and not yet the others of its subject."""
        one = await self.register("t-value", avro("x"))
        await self.register("t-value", avro("x", "y=1"))
        asking, left = self.copier.source.ask, 2

        async def ask(method: str, path: str, body: Any = None) -> Any:
            nonlocal left
            left -= "/versions/2" in path
            if "/versions/2" in path and left >= 0:
                raise RegistryUnavailable("no route")
            return await asking(method, path, body)

        self.patch(self.copier.source, "ask", ask)
        for _ in range(2):
            with self.assertRaises(RegistryUnavailable):
                await self.copier.copy(one)
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1])
        self.assertTrue(await self.copier.copy(one))
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1, 2])

    async def test_an_address_without_a_registry_is_no_answer(self) -> None:
        """All messages would go on without their schemas."""
        schema_id = await self.register("t-value", avro("x"))
        wrong = RegistryRequests(f"{self.copier.source.url}/health", reactor=net)
        self.addCleanup(lambda: Deferred.fromCoroutine(wrong.close()))
        answers: list[tuple[str, str]] = []

        async def ask(method: str, path: str, body: Any = None) -> Any:
            answers.append((method, path))
            return read_answer(path, 404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}')

        self.patch(wrong, "ask", ask)
        copier = SchemaCopier(wrong, self.copier.target)
        with self.assertRaises(RegistryRefusal):
            await copier.copy(schema_id)

    async def test_a_version_that_another_schema_has_is_refused(self) -> None:
        """The subject was used at the target before."""
        await self.register("filler", avro("f"))
        await self.register("t-value", avro("x"))
        await self.target.register("t-value", avro("z"))
        self.assertIn("version 1 of subject 't-value' is schema 2", await self.conflict(2))

    async def test_a_subject_with_schemas_of_its_own_is_not_written_to(self) -> None:
        """After a failover it takes new schemas; the text says how it takes copies again. A READONLY one stays so."""
        await self.register("t-value", avro("x"))
        await self.copier.copy(1)
        await self.target.ask("PUT", "/mode/t-value", {"mode": "READWRITE"})
        two = await self.register("t-value", avro("x", "y=1"))
        text = await self.conflict(two)
        self.assertIn("found existing subjects", text)
        self.assertIn("/mode/t-value?force=true'", text)
        await self.target.ask("PUT", "/mode/t-value", {"mode": "READONLY"})
        self.assertIn("its mode is READONLY", await self.conflict(two))

    async def test_a_schema_whose_subjects_are_deleted(self) -> None:
        """Deleted softly it is copied; for good, its id is nobody's."""
        await self.register("t-value", avro("x"))
        await self.register("u-value", avro("y"))
        await self.ask("DELETE", "/subjects/t-value")
        await self.ask("DELETE", "/subjects/u-value")
        self.assertTrue(await self.copier.copy(1))
        self.assertEqual(await self.target.get("/subjects/t-value/versions"), [1])
        await self.ask("DELETE", "/subjects/u-value?permanent=true")
        self.assertFalse(await self.copier.copy(2))


class SchemaGateTests(SchemaCopyTestCase):
    """``SchemaGate``."""

    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        """Make a gate whose delays pass by hand."""
        await super().setUp()
        self.clock = Clock()
        self.gate = SchemaGate(self.clock, self.copier, lambda: 0.0)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.gate.close()))

    async def until(self, condition: Any) -> None:
        """Turn the reactor until something holds."""
        while not condition():
            turned: Deferred[None] = Deferred()
            net.callLater(0, turned.callback, None)
            await turned

    async def test_a_set_waits_for_its_schemas_once(self) -> None:
        """The next one that names them passes at once; an id of no schema does not keep a set back."""
        schema_id = await self.register("t-value", avro("x"))
        self.assertIsNone(self.gate.wait(WHERE, set()))
        first, second = (self.gate.wait(each, {schema_id, 500}) for each in (WHERE, OTHER))
        assert first is not None and second is not None
        await first
        await second
        sent = self.copier.source.sent
        self.assertIsNone(self.gate.wait(WHERE, {schema_id}))
        self.assertEqual((await self.target.get("/subjects"), self.copier.source.sent), (["t-value"], sent))

    async def test_a_conflict_holds_back_what_names_it_and_nothing_else(self) -> None:
        """Until it is solved; the reason is shown for the partition that waits."""
        await self.register("t-value", avro("x"))
        await self.target.register("own", avro("z"))
        two = await self.register("u-value", avro("y"))
        held = self.gate.wait(WHERE, {1})
        assert held is not None
        other = self.gate.wait(OTHER, {two})
        assert other is not None
        await other
        await self.until(lambda: self.gate.trouble(WHERE))
        self.assertIn("to another schema", str(self.gate.trouble(WHERE)))
        self.assertIsNone(self.gate.trouble(OTHER))
        self.assertFalse(held.called)
        failures: list[Failure] = []
        held.addErrback(failures.append)
        held.cancel()
        self.assertTrue(failures[0].check(CancelledError), failures)
        self.assertIsNone(self.gate.trouble(WHERE))
        self.clock.advance(10)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    async def test_a_registry_that_is_away_is_waited_for(self) -> None:
        """The set is let through once the registry is back."""
        schema_id = await self.register("t-value", avro("x"))
        port = self.target.port.getHost().port
        await self.target.port.stopListening()
        await self.target.agent._pool.closeCachedConnections()
        held = self.gate.wait(WHERE, {schema_id})
        assert held is not None
        await self.until(lambda: self.gate.trouble(WHERE))
        self.assertIn("does not answer", str(self.gate.trouble(WHERE)))
        self.target.port = net.listenTCP(port, self.target.port.factory, interface="127.0.0.1")
        self.clock.advance(10)
        await held
        self.assertIsNone(self.gate.trouble(WHERE))


class RegistryPairTests(RestTestCase):
    """``RegistryPair.parse``."""

    def test_what_is_no_pair_of_urls_is_refused(self) -> None:
        """With the form that is allowed; one registry twice is told apart."""
        for text in (
            "http://a:1",
            "a:1,b:1",
            "http://a:1,http://b:1,http://c:1",
            "http://,http://b:1",
            "http://a:x,http://b",
        ):
            self.assertIn(
                "allowed is FROM_URL,TO_URL", str(self.assertRaises(ConfigurationError, RegistryPair.parse, text))
            )
        twice = self.assertRaises(ConfigurationError, RegistryPair.parse, "http://a:1/,http://a:1")
        self.assertIn("leave the option out", str(twice))
        self.assertEqual(RegistryPair.parse("http://a:1/, https://b"), RegistryPair("http://a:1", "https://b"))
