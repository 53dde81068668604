"""Tests of the proxy that tests put between clients of a coordination tree and their servers."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from tests.coord.proxy import Proxy, _ClientSide, _ServerSide


class ProxyTests(SynchronousTestCase):
    """One connection through a proxy."""

    def test_a_servers_last_answer_reaches_the_client(self) -> None:
        """A server that answers and closes is not cut off before."""
        client = _ClientSide(Proxy(Clock(), 1))
        transport = StringTransport()
        client.transport = transport
        server = _ServerSide()
        server.transport = StringTransport()
        server.client, client.server = client, server
        server.dataReceived(b"your session is over")
        server.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(transport.value(), b"your session is over")
        self.assertFalse(transport.disconnected)
        self.assertTrue(transport.disconnecting)
