"""Tests of the bound on connections with the pages, over real connections."""

from __future__ import annotations

import socket
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from logd.net.limits.connection_quotas import AdmissionLimits
from logd.web.bounded_site import BoundedSite
from logd.web.site import QuietSite, pages

net: Any = reactor
ASKED = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


class Endless(Resource):
    """A page that is never finished."""

    isLeaf = True  # noqa: N815  # Twisted reads it

    def render_GET(self, request: Request) -> int:  # noqa: N802  # Twisted calls it
        """Begin, and no more."""
        request.write(b"begun\n")
        return NOT_DONE_YET


class BoundedSiteTests(TestCase):
    """A site with three connections, two of one address."""

    def serve(self, limits: AdmissionLimits) -> None:
        """Serve the pages."""
        root = pages(lambda: {"status": "ok"}, CollectorRegistry())
        root.putChild(b"endless", Endless())
        self.site = BoundedSite(QuietSite(root), limits)
        port = net.listenTCP(0, self.site, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.address = ("127.0.0.1", port.getHost().port)

    def call(self, data: bytes = b"") -> socket.socket:
        """Connect, and send something."""
        connection = socket.create_connection(self.address, 20)
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def refuses_another(self) -> bool:
        """Return whether the server cuts off one connection more, perhaps before the system says that it is made."""
        try:
            return refused(self.call(), ASKED)
        except ConnectionResetError:
            return True

    async def test_idle_connections_give_way_and_busy_ones_stay(self) -> None:
        """A stream of updates is not cut off for a stranger that asks for nothing."""
        self.serve(AdmissionLimits(3, None))

        def work() -> None:
            busy = [self.call(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(2)]
            for each in busy:
                self.assertIn(b"200 OK", each.recv(1000))
            idle = self.call(b"GET /he")  # not a whole request
            for _ in range(5):
                asking = self.call(ASKED)
                self.assertIn(b"200 OK", asking.recv(1000))
            self.assertTrue(refused(idle, b"alth"))
            busy.append(self.call(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n"))
            self.assertIn(b"200 OK", busy[-1].recv(1000))
            self.assertTrue(self.refuses_another())
            for each in busy:
                each.setblocking(False)
                with self.assertRaises(BlockingIOError):
                    while each.recv(1000):
                        pass
                each.close()

        await deferToThread(work)
        await self.closed()
        self.assertEqual(len(self.site.open), 0)
        self.assertGreaterEqual(self.site.connections_refused, 6)

    async def test_one_address_has_its_own_bound(self) -> None:
        """However many are open in all; there too idle ones give way, so a proxy's clients shut out nobody else."""
        self.serve(AdmissionLimits(10, 2, replaced_by_address=True))

        def work() -> None:
            idle, busy = self.call(), self.call(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertIn(b"200 OK", busy.recv(1000))
            again = self.call(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertIn(b"200 OK", again.recv(1000))
            self.assertTrue(refused(idle, ASKED))
            self.assertTrue(self.refuses_another())

        await deferToThread(work)

    async def closed(self) -> None:
        """Wait until the server has seen that all connections are closed."""
        while len(self.site.open):
            turn: Any = deferToThread(lambda: None)
            await turn


def refused(connection: socket.socket, data: bytes) -> bool:
    """Return whether the server has cut a connection off."""
    try:
        connection.sendall(data)
        return connection.recv(1000) == b""
    except OSError:
        return True
