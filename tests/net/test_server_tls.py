"""Tests of logd.net.server_tls: handshakes in memory, with OpenSSL on both sides."""

from __future__ import annotations

import os
import ssl
import subprocess
from typing import Any
from unittest import skipUnless

from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IProtocolNegotiationFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.net.server_tls import reactor_for_listeners

try:
    from twisted.protocols.tls import TLSMemoryBIOFactory
except ImportError:  # an extra: logd[tls]
    TLSMemoryBIOFactory = None  # type: ignore[assignment, misc]


@implementer(IProtocolNegotiationFactory)
class PagesFactory(Factory):
    """A factory of servers of HTTP."""

    protocol = Protocol

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802  # Twisted calls it
        """See IProtocolNegotiationFactory."""
        return [b"http/1.1"]


@skipUnless(TLSMemoryBIOFactory is not None, "TLS needs the extra logd[tls]")
class HandshakeTests(SynchronousTestCase):
    """Clients that name the protocols that they speak, by ALPN, at an ssl: endpoint."""

    def setUp(self) -> None:
        """Make a key and a certificate."""
        self.files = os.path.abspath(self.mktemp())
        kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
        command = f"openssl req -x509 {kind} -nodes -days 2 -subj /CN=logd".split()
        made = ["-keyout", f"{self.files}.key", "-out", f"{self.files}.crt"]
        subprocess.run([*command, *made], check=True, capture_output=True)

    def chosen(self, factory: Any, protocols: list[str], authorities: str | None = None) -> str | None:
        """Shake hands with a server; return the protocol that it chooses. Raises ssl.SSLError if it refuses."""
        reactor = MemoryReactorClock()
        listening = reactor_for_listeners(reactor, authorities, False)
        endpoint = f"ssl:1:privateKey={self.files}.key:certKey={self.files}.crt"
        self.successResultOf(serverFromString(listening, endpoint).listen(factory))
        ((_, _, context_factory, _, _),) = reactor.sslServers
        server = TLSMemoryBIOFactory(context_factory, False, factory, reactor).buildProtocol(None)
        transport = StringTransport()
        server.makeConnection(transport)
        client_context = ssl.create_default_context(cafile=f"{self.files}.crt")
        client_context.check_hostname = False
        if protocols:
            client_context.set_alpn_protocols(protocols)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context.wrap_bio(incoming, outgoing)
        for _ in range(4):
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                server.dataReceived(outgoing.read())
                reactor.advance(0)
                incoming.write(transport.value())
                transport.clear()
        else:
            self.fail("the handshake has no end")
        return client.selected_alpn_protocol()

    def test_protocols_that_are_not_ours_are_ignored(self) -> None:
        """As by a server that knows nothing of them; with and without authorities for clients' certificates."""
        for protocols in ([], ["kafka"], ["h2", "http/1.1"]):
            for authorities in (None, f"{self.files}.crt"):
                factory = Factory.forProtocol(Protocol)
                self.assertIsNone(self.chosen(factory, protocols, authorities), protocols)

    def test_pages_choose_theirs(self) -> None:
        """A browser is told that it is HTTP/1.1."""
        for authorities in (None, f"{self.files}.crt"):
            self.assertEqual(self.chosen(PagesFactory(), ["h2", "http/1.1"], authorities), "http/1.1")
            self.assertIsNone(self.chosen(PagesFactory(), [], authorities))


class PlainTests(SynchronousTestCase):
    """Endpoints without TLS."""

    def test_they_are_the_reactors(self) -> None:
        """Nothing of TLS is imported for them, which may be missing."""
        reactor: Any = MemoryReactorClock()
        listening = reactor_for_listeners(reactor, None, False)
        self.successResultOf(serverFromString(listening, "tcp:1").listen(Factory.forProtocol(Protocol)))
        self.assertEqual(len(reactor.tcpServers), 1)
