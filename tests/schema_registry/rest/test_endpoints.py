"""Tests of each endpoint against the published behaviour of Confluent's registry, by HTTP."""

from __future__ import annotations

import json

from logd.schema_registry.rest.endpoints import ROUTES
from logd.schema_registry.schemas import StoredSchema
from tests.schema_registry.rest.rig import RestTestCase, avro

A, B, C = avro("x"), avro("x", "y=1"), avro("x", "y")


class SubjectTests(RestTestCase):
    """/subjects: register, list, read, look up, delete."""

    async def test_a_schema_is_registered_listed_and_read(self) -> None:
        """By version, by "latest", and its text alone."""
        self.assertEqual(await self.get("/subjects"), [])
        self.assertEqual([await self.register("a-value", each) for each in (A, B, A)], [1, 2, 1])
        await self.register("b/value", A)
        self.assertEqual(await self.get("/subjects"), ["a-value", "b/value"])
        self.assertEqual(await self.get("/subjects?subjectPrefix=b"), ["b/value"])
        self.assertEqual(await self.get("/subjects?offset=1&limit=5"), ["b/value"])
        self.assertEqual(await self.get("/subjects/b%2Fvalue/versions"), [1])
        self.assertEqual(await self.get("/subjects/a-value/versions"), [1, 2])
        latest = {"subject": "a-value", "version": 2, "id": 2, "schema": B}
        for version in ("2", "latest", "-1"):
            self.assertEqual(await self.get(f"/subjects/a-value/versions/{version}"), latest)
        self.assertEqual(await self.get("/subjects/a-value/versions/1/schema"), json.loads(A))
        self.assertEqual(len(await self.get("/schemas")), 3)
        self.assertEqual([each["id"] for each in await self.get("/schemas?latestOnly=true")], [2, 1])

    async def test_a_list_of_schemas_is_bounded_and_stands_deletions(self) -> None:
        """A thousand of the largest would fill the memory; what is deleted meanwhile is left out."""
        for number in range(70):
            await self.register(f"s{number:02}", avro("x", name=f"R{number}")[:-1] + f',"doc":"{"d" * 250_000}"}}')
        status, code, text = await self.refused("GET", "/schemas")
        self.assertEqual((status, code), (400, 40001))
        self.assertIn("by limit", text)
        self.assertEqual(len(await self.get("/schemas?limit=10&offset=60")), 10)
        assert self.registry is not None
        kept = self.registry.queries.schema_if_any

        async def deleting(schema_id: int) -> StoredSchema | None:
            return None if schema_id == 70 else await kept(schema_id)

        self.patch(self.registry.queries, "schema_if_any", deleting)
        self.assertEqual(len(await self.get("/schemas?limit=10&offset=60")), 9)

    async def test_the_references_of_schemas_count_as_their_texts_do(self) -> None:
        """Their names may be long, for the answer and for what is kept in memory."""
        await self.register("a", A)
        assert self.registry is not None
        for number in range(35):
            references = [{"name": f"{number:02}{'n' * 500_000}", "subject": "a", "version": 1}]
            await self.register(f"s{number:02}", avro("x", name="S"), references=references)
        status, answer = await self.ask("GET", "/schemas")
        self.assertEqual(status, 400)
        self.assertIn("by limit", answer["message"])
        for number in range(4):
            await self.ask("POST", f"/compatibility/subjects/s{number:02}/versions/1", {"schema": avro("x", name="S")})
        self.assertLess(len(self.registry.queries._reader._schemas), 35)
        self.assertLess(len(self.registry.queries._loader._parsed), 4)

    async def test_a_schema_is_looked_up_by_its_text(self) -> None:
        """40401 without the subject, 40403 without the schema."""
        await self.register("a", A)
        status, answer = await self.ask("POST", "/subjects/a", {"schema": A})
        self.assertEqual((status, answer), (200, {"subject": "a", "version": 1, "id": 1, "schema": A}))
        self.assertEqual(
            await self.refused("POST", "/subjects/b", {"schema": A}), (404, 40401, "Subject 'b' not found.")
        )
        self.assertEqual(await self.refused("POST", "/subjects/a", {"schema": B}), (404, 40403, "Schema not found"))

    async def test_versions_and_subjects_are_deleted_in_two_steps(self) -> None:
        """Each wrong step has a code of its own."""
        for each in (A, B):
            await self.register("a", each)
        for method, path, expected in (
            ("DELETE", "/subjects/b", (404, 40401)),
            ("DELETE", "/subjects/a/versions/3", (404, 40402)),
            ("DELETE", "/subjects/a?permanent=true", (404, 40405)),
            ("DELETE", "/subjects/a/versions/1?permanent=true", (404, 40407)),
        ):
            self.assertEqual((await self.refused(method, path))[:2], expected)
        self.assertEqual(await self.ask("DELETE", "/subjects/a/versions/1"), (200, 1))
        self.assertEqual((await self.refused("DELETE", "/subjects/a/versions/1"))[:2], (404, 40406))
        self.assertEqual((await self.refused("GET", "/subjects/a/versions/1"))[:2], (404, 40402))
        self.assertTrue((await self.get("/subjects/a/versions/1?deleted=true"))["deleted"])
        self.assertEqual(await self.get("/subjects/a/versions?deleted=true"), [1, 2])
        self.assertEqual(await self.get("/subjects/a/versions?deleted_only=true"), [1])
        self.assertEqual(await self.ask("DELETE", "/subjects/a/versions/1?permanent=true"), (200, 1))
        self.assertEqual(await self.ask("DELETE", "/subjects/a"), (200, [2]))
        self.assertEqual((await self.refused("DELETE", "/subjects/a"))[:2], (404, 40404))
        self.assertEqual((await self.refused("GET", "/subjects/a/versions"))[:2], (404, 40401))
        self.assertEqual(await self.get("/subjects?deletedOnly=true"), ["a"])
        self.assertEqual(await self.ask("DELETE", "/subjects/a?permanent=true"), (200, [2]))
        self.assertEqual(await self.get("/subjects?deleted=true"), [])

    async def test_an_invalid_version_is_42202(self) -> None:
        """Neither a number from 1 to 2^31 - 1 nor "latest"."""
        await self.register("a", A)
        for version in ("0", "-2", "x", "2147483648", "1.0", "%D9%A1"):
            self.assertEqual((await self.refused("GET", f"/subjects/a/versions/{version}"))[:2], (422, 42202), version)

    async def test_references_are_registered_and_protect_what_they_name(self) -> None:
        """42206 for a deletion."""
        await self.register("a", A)
        references = [{"name": "R", "subject": "a", "version": 1}]
        schema_id = await self.register("c", avro("r:R", name="C"), references=references)
        self.assertEqual((await self.get(f"/schemas/ids/{schema_id}"))["references"], references)
        self.assertEqual(await self.get("/subjects/a/versions/1/referencedby"), [schema_id])
        self.assertEqual((await self.refused("DELETE", "/subjects/a/versions/1"))[:2], (422, 42206))
        bad = {"schema": avro("r:R", name="C"), "references": [{"name": "R", "subject": "a", "version": 9}]}
        self.assertEqual((await self.refused("POST", "/subjects/d/versions", bad))[:2], (422, 42201))

    async def test_the_schema_type_is_told_unless_it_is_avro(self) -> None:
        """JSON Schema is another type; there is no Protobuf."""
        await self.register("j", '{"type": "object"}', schemaType="JSON")
        self.assertEqual(await self.get("/schemas/ids/1"), {"schema": '{"type":"object"}', "schemaType": "JSON"})
        self.assertEqual(await self.get("/schemas/types"), ["JSON", "AVRO"])
        body = {"schema": "message M {}", "schemaType": "PROTOBUF"}
        self.assertEqual((await self.refused("POST", "/subjects/p/versions", body))[:2], (422, 42201))


class SchemaIdTests(RestTestCase):
    """/schemas/ids."""

    async def test_a_schema_is_found_by_its_id(self) -> None:
        """With its subjects and versions; 40403 for an id that was never given out."""
        await self.register("a", A)
        await self.register("b", A)
        self.assertEqual(await self.get("/schemas/ids/1"), {"schema": A})
        self.assertEqual(await self.get("/schemas/ids/1/schema"), json.loads(A))
        self.assertEqual(await self.get("/schemas/ids/1/subjects"), ["a", "b"])
        expected = [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}]
        self.assertEqual(await self.get("/schemas/ids/1/versions"), expected)
        self.assertEqual(await self.get("/schemas/ids/1/versions?subject=b"), expected[1:])
        self.assertEqual(await self.refused("GET", "/schemas/ids/7"), (404, 40403, "Schema 7 not found"))
        self.assertEqual((await self.refused("GET", "/schemas/ids/x"))[:2], (404, 404))


class CompatibilityTests(RestTestCase):
    """/compatibility and the refusal of a registration."""

    async def test_an_incompatible_schema_is_409_with_the_reasons(self) -> None:
        """At registration and in a trial, where they are told if asked for."""
        await self.register("a", A)
        status, code, message = await self.refused("POST", "/subjects/a/versions", {"schema": C})
        self.assertEqual((status, code), (409, 409))
        self.assertIn('incompatible with an earlier schema for subject "a"', message)
        for path in ("/compatibility/subjects/a/versions/latest", "/compatibility/subjects/a/versions"):
            self.assertEqual(await self.ask("POST", path, {"schema": C}), (200, {"is_compatible": False}))
            _, answer = await self.ask("POST", f"{path}?verbose=true", {"schema": C})
            self.assertIn("READER_FIELD_MISSING_DEFAULT_VALUE", answer["messages"][0])
            self.assertEqual(await self.ask("POST", path, {"schema": B}), (200, {"is_compatible": True}))
        path = "/compatibility/subjects/{}/versions/{}"
        for subject, version, expected in (("b", "latest", 40401), ("a", "5", 40402), ("a", "x", 42202)):
            refusal = await self.refused("POST", path.format(subject, version), {"schema": A})
            self.assertEqual(refusal[1], expected)
        self.assertEqual((await self.refused("POST", path.format("a", "1"), {"schema": "{"}))[:2], (422, 42201))


class ConfigTests(RestTestCase):
    """/config and /mode."""

    async def test_levels_are_set_for_all_and_for_a_subject(self) -> None:
        """PUT answers with another name than GET, as Confluent's registry does."""
        self.assertEqual(await self.get("/config"), {"compatibilityLevel": "BACKWARD"})
        self.assertEqual((await self.refused("GET", "/config/a"))[:2], (404, 40408))
        self.assertEqual(await self.get("/config/a?defaultToGlobal=true"), {"compatibilityLevel": "BACKWARD"})
        body = {"compatibility": "full"}
        self.assertEqual(await self.ask("PUT", "/config", body), (200, {"compatibility": "FULL"}))
        self.assertEqual(
            await self.ask("PUT", "/config/a", {"compatibility": "NONE"}), (200, {"compatibility": "NONE"})
        )
        self.assertEqual(await self.get("/config/a"), {"compatibilityLevel": "NONE"})
        self.assertEqual(await self.ask("DELETE", "/config/a"), (200, {"compatibilityLevel": "NONE"}))
        self.assertEqual((await self.refused("DELETE", "/config/a"))[:2], (404, 40408))
        self.assertEqual(await self.ask("DELETE", "/config"), (200, {"compatibilityLevel": "FULL"}))
        self.assertEqual(await self.get("/config"), {"compatibilityLevel": "BACKWARD"})
        wrong: tuple[object, ...] = ("SIDEWAYS", 3, None, ["FULL"], {})
        for bad in wrong:
            self.assertEqual((await self.refused("PUT", "/config", {"compatibility": bad}))[:2], (422, 42203))

    async def test_modes_are_set_for_all_and_for_a_subject(self) -> None:
        """42205 for what a mode does not permit."""
        self.assertEqual(await self.get("/mode"), {"mode": "READWRITE"})
        self.assertEqual((await self.refused("GET", "/mode/a"))[:2], (404, 40409))
        self.assertEqual(await self.ask("PUT", "/mode/a", {"mode": "READONLY"}), (200, {"mode": "READONLY"}))
        self.assertEqual((await self.refused("POST", "/subjects/a/versions", {"schema": A}))[:2], (422, 42205))
        self.assertEqual(await self.ask("DELETE", "/mode/a"), (200, {"mode": "READONLY"}))
        await self.register("a", A)
        self.assertEqual((await self.refused("PUT", "/mode/a", {"mode": "IMPORT"}))[:2], (422, 42205))
        self.assertEqual(await self.ask("PUT", "/mode/b", {"mode": "IMPORT"}), (200, {"mode": "IMPORT"}))
        self.assertEqual(await self.register("b", B, id=50, version=4), 50)
        self.assertEqual(await self.get("/subjects/b/versions"), [4])
        self.assertEqual((await self.refused("PUT", "/mode", {"mode": "WRITE"}))[:2], (422, 42204))


class ServerTests(RestTestCase):
    """Endpoints about the server itself."""

    async def test_each_route_is_reached(self) -> None:
        """None is hidden behind another, and none fails for want of data."""
        for route in ROUTES:
            path = "/".join("1" if each == "*" else each for each in route.path)
            status, answer = await self.ask(route.method, f"/{path}", {} if route.method in ("POST", "PUT") else None)
            self.assertIn(status, (200, 404, 422), (route, answer))
            self.assertNotEqual(answer.get("error_code") if isinstance(answer, dict) else None, 404, route)
