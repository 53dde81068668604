"""Tests of the health and metrics pages over real connections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from twisted.internet import reactor
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.resource import Resource
from twisted.web.server import Site

from logd.web.site import pages


class PagesTests(TestCase):
    """/health and /metrics as a monitoring system reads them."""

    def setUp(self) -> None:
        """Serve pages whose health the test can change."""
        self.state: Mapping[str, Any] | Exception = {"status": "ok", "partitions": 3}
        self.registry = CollectorRegistry()
        net: Any = reactor
        self.port = net.listenTCP(0, Site(pages(self.health, self.registry)), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        # Connections are closed after each answer, so that none is left behind.
        self.agent = Agent(net, pool=HTTPConnectionPool(net, persistent=False))

    def health(self) -> Mapping[str, Any]:
        """Return the health that the test has set, or raise it."""
        if isinstance(self.state, Exception):
            raise self.state
        return self.state

    async def get(self, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of a page."""
        uri = f"http://127.0.0.1:{self.port.getHost().port}{path}".encode()
        response = await self.agent.request(b"GET", uri)
        (content_type,) = response.headers.getRawHeaders("content-type")
        return response.code, content_type, await readBody(response)

    async def test_a_healthy_broker_is_answered_with_200(self) -> None:
        """The body is all that the broker reported, as JSON."""
        code, content_type, body = await self.get("/health")
        self.assertEqual((code, content_type), (200, "application/json"))
        self.assertEqual(json.loads(body), {"status": "ok", "partitions": 3})

    async def test_any_other_status_is_answered_with_503(self) -> None:
        """The reasons are in the body."""
        self.state = {"status": "offline partitions", "offline": ["clicks-3"]}
        code, _, body = await self.get("/health")
        self.assertEqual((code, json.loads(body)), (503, self.state))

    async def test_a_health_check_that_raises_is_answered_with_503(self) -> None:
        """The error is logged: a check that fails says nothing good of the broker."""
        self.state = ZeroDivisionError("in health")
        code, _, body = await self.get("/health")
        self.assertEqual((code, json.loads(body)), (503, {"status": "unknown"}))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    async def test_metrics_show_the_given_registry_and_no_other(self) -> None:
        """They are plain text, as Prometheus reads them."""
        Counter("logd_messages_in", "Messages.", registry=self.registry).inc(42)
        code, content_type, body = await self.get("/metrics")
        self.assertEqual(code, 200)
        self.assertTrue(content_type.startswith("text/plain"), content_type)
        self.assertIn(b"logd_messages_in_total 42.0", body)
        self.assertNotIn(b"python_info", body)

    async def test_the_root_leads_to_the_console_if_there_is_one(self) -> None:
        """A person who types the address alone finds it."""
        net: Any = reactor
        root = pages(self.health, CollectorRegistry(), console=Resource())
        port = net.listenTCP(0, Site(root), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        response = await self.agent.request(b"GET", f"http://127.0.0.1:{port.getHost().port}/".encode())
        await readBody(response)
        self.assertEqual((response.code, response.headers.getRawHeaders("location")), (302, ["/console"]))

    async def test_every_other_page_is_answered_with_404(self) -> None:
        """A path below /health is answered as /health is."""
        for path in ("/", "/other", "/health/x"):
            code, _, _ = await self.get(path)
            self.assertEqual(code, 200 if path == "/health/x" else 404, path)
