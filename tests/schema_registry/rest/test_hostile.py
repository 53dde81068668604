"""Tests of requests that no client sends: each has an answer of JSON, and no traceback."""

from __future__ import annotations

import json
from random import Random

from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from logd.coord.errors import OperationTimeout
from logd.schema_registry.queries import RegistryQueries
from logd.web.bounded_request import MOST_BODY_BYTES
from tests.schema_registry.rest.rig import RestTestCase, avro, net

VERSIONS = "/subjects/a/versions"


class Collecting(Protocol):
    """Collects what comes until the connection ends."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted calls it
        """Collect."""
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802  # as above
        """Fire."""
        self.ended.callback(self.received)


class HostileTests(RestTestCase):
    """Bodies, types, paths, and a tree that is away."""

    async def test_a_body_that_is_no_request_is_refused(self) -> None:
        """By its kind; nothing is stored."""
        schema = avro("x")
        for body, status in (
            (b"", 400),
            (b"{", 400),
            (b"[]", 400),
            (b"\xff\xfe", 400),
            (b"[" * 100_000, 400),
            (b'{"schema": ' + b"[" * 50 + b"]" * 50 + b"}", 400),
            (b'{"schema": "\\"int\\"", "schema": "\\"long\\""}', 400),
            (b"{}", 422),
            (b'{"schema": 3}', 422),
            (b'{"schema": ""}', 422),
            (b'{"schema": "\\"int\\"", "schemaType": 3}', 422),
            (b'{"schema": "\\"int\\"", "references": {}}', 422),
            (b'{"schema": "\\"int\\"", "references": [{"name": "a"}]}', 422),
            (b'{"schema": "\\"int\\"", "references": [{"name": "a", "subject": "s", "version": true}]}', 422),
            (b'{"schema": "\\"int\\"", "id": true}', 422),
            (b'{"schema": "\\"int\\"", "version": "1"}', 422),
            (json.dumps({"schema": schema, "ruleSet": {"domainRules": []}}).encode(), 422),
            (json.dumps({"schema": "[" * 300 + "]" * 300}).encode(), 422),
        ):
            found, _, answer = await self.send("POST", VERSIONS, body)
            self.assertEqual(found, status, body[:100])
            self.assertEqual(sorted(json.loads(answer)), ["error_code", "message"])
            self.assertLess(len(answer), 2000)
        self.assertEqual(await self.get("/subjects"), [])

    async def test_a_body_that_is_too_long_is_refused_and_not_kept(self) -> None:
        """413; also in chunks, where no length is told."""
        status, _, answer = await self.send("POST", VERSIONS, b"x" * (MOST_BODY_BYTES + 1))
        self.assertEqual((status, json.loads(answer)["error_code"]), (413, 413))
        collecting = Collecting()
        await connectProtocol(HostnameEndpoint(net, "127.0.0.1", self.port.getHost().port), collecting)
        assert collecting.transport is not None
        head = f"POST {VERSIONS} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        collecting.transport.write(head.encode())
        for _ in range(20):
            collecting.transport.write(b"%x\r\n%s\r\n" % (100_000, b"x" * 100_000))
        collecting.transport.write(b"0\r\n\r\n")
        self.assertIn(b" 413 ", await collecting.ended)

    async def test_types_that_are_not_served_are_refused(self) -> None:
        """415 for a body, 406 for an answer; a client that says nothing gets the registry's own type."""
        body = json.dumps({"schema": avro("x")}).encode()
        for given, status in (("text/plain", 415), ("application/json; charset=utf-8", 200)):
            found, _, _ = await self.send("POST", VERSIONS, body, {"content-type": given})
            self.assertEqual(found, status)
        for accepted, status, told in (
            ("text/html", 406, "application/vnd.schemaregistry.v1+json"),
            ("application/json", 200, "application/json"),
            ("*/*", 200, "application/vnd.schemaregistry.v1+json"),
            ("text/html, application/vnd.schemaregistry+json;q=0.5", 200, "application/vnd.schemaregistry+json"),
        ):
            found, headers, _ = await self.send("GET", "/subjects", headers={"accept": accepted})
            self.assertEqual((found, headers.getRawHeaders("content-type")), (status, [told]))

    async def test_paths_and_parameters_of_no_endpoint_are_refused(self) -> None:
        """404, 405 with the methods that there are, 400; a subject's name may be anything printable."""
        for path in ("/subjects/a/b", "/schemas/nonsense/x", "/subjects/%FF/versions", "/mode/a/b/c", "/config/a/b"):
            self.assertEqual((await self.refused("GET", path))[0], 404, path)
        status, headers, _ = await self.send("PATCH", "/config/a")
        self.assertEqual((status, headers.getRawHeaders("allow")), (405, ["DELETE, GET, PUT"]))
        for path in ("/subjects?deleted=maybe", "/subjects?limit=x", "/subjects?offset=" + "9" * 5000):
            self.assertIn((await self.ask("GET", path))[0], (200, 400), path)
        for name in ("%00", "%0A", "%2E%2E", ".", "x" * 600, ":.ctx:a"):
            status, _ = await self.ask("GET", f"/subjects/{name}/versions")
            self.assertIn(status, (404, 422), name)

    async def test_random_bodies_and_paths_are_always_answered(self) -> None:
        """A sound request with bytes changed."""
        random = Random(7)
        sound = json.dumps({"schema": avro("x", "y=1"), "references": [], "schemaType": "AVRO"}).encode()
        for _ in range(60):
            body = bytearray(sound)
            for _ in range(random.randint(1, 5)):
                body[random.randrange(len(body))] = random.randrange(256)
            status, _, answer = await self.send("POST", VERSIONS, bytes(body))
            self.assertIn(status, (200, 400, 409, 422), bytes(body))
            json.loads(answer)

    async def test_a_defect_is_answered_without_a_traceback(self) -> None:
        """It is logged; the client learns that it was no fault of its own."""

        async def broken(*_: object) -> None:
            raise ZeroDivisionError("secret")

        self.patch(RegistryQueries, "subjects", broken)
        self.assertEqual(await self.refused("GET", "/subjects"), (500, 500, "Internal Server Error"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    async def test_a_tree_that_is_away_is_50002(self) -> None:
        """Before its client is made, and when it does not answer."""
        self.patch(self.tree, "get_children", lambda path: fail(OperationTimeout(path=path)))
        self.assertEqual((await self.refused("GET", "/subjects"))[:2], (500, 50002))
        kept, self.registry = self.registry, None
        self.assertEqual((await self.refused("GET", "/subjects"))[:2], (500, 50002))
        self.registry = kept

    async def test_answers_are_counted_by_their_status(self) -> None:
        """In /metrics, beside /health."""
        await self.get("/subjects")
        await self.refused("GET", "/schemas/ids/5")
        _, _, metrics = await self.send("GET", "/metrics")
        for line in ('answers_total{status="200"} 1.0', 'answers_total{status="404"} 1.0'):
            self.assertIn(f"logd_schema_registry_{line}", metrics.decode())
