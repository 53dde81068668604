"""A registry's REST interface on a port of loopback, over a tree in the same process."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool, readBody
from twisted.web.http_headers import Headers

from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.rest.resource import CONTENT_TYPE
from logd.testing.inprocess.client import InProcessCoordination
from logd.web.site import QuietSite, pages

net: Any = reactor

Headed = dict[str, str]


def avro(*fields: str, name: str = "R") -> str:
    """Return the text of a record with fields of type int; "x=1" has a default, "x:T" another type."""
    rows = []
    for each in fields:
        each, _, default = each.partition("=")
        each, _, kind = each.partition(":")
        rows.append({"name": each, "type": kind or "int", **({"default": int(default)} if default else {})})
    return json.dumps({"type": "record", "name": name, "fields": rows}, separators=(",", ":"))


class RestTestCase(TestCase):
    """A test that asks by HTTP."""

    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        """Serve a registry over an empty tree."""
        self.addCleanup(lambda: Deferred.fromCoroutine(self.stop()))
        self.host = TreeHost(Tree(), NoJournal(), net, lambda count: b"p" * count)
        self.host.start()
        self.tree = InProcessCoordination(self.host, net)
        await self.tree.connect()
        self.registry: SchemaRegistry | None = SchemaRegistry(self.tree, net)
        self.metrics = CollectorRegistry()
        site = QuietSite(pages(lambda: {"status": "ok"}, self.metrics, lambda: self.registry))
        self.port = net.listenTCP(0, site, interface="127.0.0.1")
        self.agent = Agent(net, pool=HTTPConnectionPool(net, persistent=False))

    async def stop(self) -> None:
        """Stop serving."""
        await self.port.stopListening()
        if self.registry is not None:
            self.registry.close()
        await self.tree.close()
        self.host.stop()

    async def send(
        self, method: str, path: str, body: bytes | None = None, headers: Headed | None = None
    ) -> tuple[int, Headers, bytes]:
        """Send a request; return status, headers and body."""
        given = {"content-type": CONTENT_TYPE, **(headers or {})}
        response = await self.agent.request(
            method.encode(),
            f"http://127.0.0.1:{self.port.getHost().port}{path}".encode(),
            Headers({name: [value] for name, value in given.items()}),
            None if body is None else FileBodyProducer(BytesIO(body)),
        )
        return response.code, response.headers, await readBody(response)

    async def ask(self, method: str, path: str, body: Any = None, headers: Headed | None = None) -> tuple[int, Any]:
        """Send JSON; return status and the JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        status, _, answer = await self.send(method, path, data, headers)
        return status, json.loads(answer)

    async def get(self, path: str) -> Any:
        """Return the answer to a GET that succeeds."""
        status, answer = await self.ask("GET", path)
        self.assertEqual(status, 200, answer)
        return answer

    async def register(self, subject: str, text: str, **more: Any) -> int:
        """Register a schema; return its id."""
        status, answer = await self.ask("POST", f"/subjects/{quote(subject, '')}/versions", {"schema": text, **more})
        self.assertEqual(status, 200, answer)
        return int(answer["id"])

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, int, str]:
        """Return status, code and message of a request that is refused."""
        status, answer = await self.ask(method, path, body)
        self.assertEqual(sorted(answer), ["error_code", "message"])
        return status, answer["error_code"], answer["message"]
