"""Tests of the service that listens for the health and metrics pages."""

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
    """Return a service of pages on a port of loopback."""
    return PagesService(net, f"tcp:{port}:interface=127.0.0.1", lambda: {"status": "ok"}, CollectorRegistry())


class PagesServiceTests(TestCase):
    """Starting and stopping the service on the real reactor."""

    async def test_pages_are_served_between_start_and_stop(self) -> None:
        """The port is free again afterwards."""
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

    async def test_a_port_taken_with_privileges_is_not_taken_twice(self) -> None:
        """A second listen would fail as an ordinary user, after twistd has given up root."""
        pages = service()
        pages.privilegedStartService()
        port = pages.port
        pages.startService()
        self.assertIs(pages.port, port)
        await pages.stopService()

    async def test_a_port_in_use_fails_the_start_with_its_setting(self) -> None:
        """The error names the setting, the port and the option that changes it."""
        first = service()
        first.startService()
        self.addCleanup(first.stopService)
        assert first.port is not None
        port: int = first.port.getHost().port  # type: ignore[attr-defined]  # as above
        with self.assertRaisesRegex(ConfigurationError, f"http = 'tcp:{port}:.*already in use.*--http"):
            service(port).privilegedStartService()

    async def test_a_service_that_never_listened_can_be_stopped(self) -> None:
        """Another service's failure at the start stops this one too."""
        await service().stopService()
