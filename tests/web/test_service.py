"""Tests of the pages' service."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry
from twisted.application.service import IService
from twisted.internet import reactor
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from zope.interface.verify import verifyObject

from logd.errors import ConfigurationError
from logd.web.service import PagesService

net: Any = reactor


def service(port: int = 0) -> PagesService:
    """A service of pages on a port of loopback."""
    return PagesService(net, f"tcp:{port}:interface=127.0.0.1", lambda: {"status": "ok"}, CollectorRegistry())


class PagesServiceTests(TestCase):
    """Start and stop."""

    async def test_serves(self) -> None:
        """Between start and stop the pages are there, and the port is free again afterwards."""
        pages = service()
        verifyObject(IService, pages)
        pages.startService()
        assert pages.port is not None
        port: int = pages.port.getHost().port  # type: ignore[attr-defined]  # of TCP it is an IPv4Address
        agent = Agent(net, pool=HTTPConnectionPool(net, persistent=False))
        response = await agent.request(b"GET", f"http://127.0.0.1:{port}/health".encode())
        self.assertEqual(await readBody(response), b'{"status": "ok"}\n')
        await pages.stopService()
        again = service(port)
        again.startService()
        await again.stopService()

    async def test_privileges(self) -> None:
        """What was listened on with privileges is not listened on twice."""
        pages = service()
        pages.privilegedStartService()
        port = pages.port
        pages.startService()
        self.assertIs(pages.port, port)
        await pages.stopService()

    async def test_port_in_use(self) -> None:
        """A port in use is an error of the start itself, which names the setting and the port."""
        first = service()
        first.startService()
        self.addCleanup(first.stopService)
        assert first.port is not None
        port: int = first.port.getHost().port  # type: ignore[attr-defined]  # as above
        with self.assertRaisesRegex(ConfigurationError, f"http = 'tcp:{port}:.*already in use.*--http"):
            service(port).privilegedStartService()

    async def test_never_started(self) -> None:
        """A service that did not come to listen can be stopped: another one's failure ends them all."""
        await service().stopService()
