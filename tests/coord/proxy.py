"""A TCP proxy that does to connections what a network does: it cuts, delays, swallows and refuses them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure


class Proxy(Factory):
    """Passes bytes between clients and the port ``target`` of loopback, on a port of its own."""

    noisy = False

    def __init__(self, reactor: Any, target: int) -> None:
        self.target = target
        self.port = 0
        #: Swallow the clients' requests, or the server's answers: a connection that is dead and does not know it.
        self.swallow_requests = False
        self.swallow_answers = False
        #: Seconds by which answers are delayed.
        self.delay = 0.0
        #: Accept connections, and close each at once.
        self.refusing = False
        self.reactor = reactor
        self.connections: list[_ClientSide] = []
        self._listening: Any = None

    @property
    def hosts(self) -> str:
        """The address that clients are given."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> Proxy:
        """Listen, and return the proxy itself."""
        self._listening = await TCP4ServerEndpoint(self.reactor, 0, interface="127.0.0.1").listen(self)
        self.port = self._listening.getHost().port
        return self

    async def stop(self) -> None:
        """Stop listening, and end all connections."""
        if self._listening is not None:
            await self._listening.stopListening()
        self.cut()

    def cut(self) -> None:
        """End all connections."""
        for connection in list(self.connections):
            connection.end()

    def say(self, data: bytes) -> None:
        """Send all clients bytes that the server did not send."""
        for connection in self.connections:
            connection.transport.write(data)

    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # noqa: N802
        """See Factory."""
        return _ClientSide(self)


class _ClientSide(Protocol):
    transport: Any  # TCP's, with more than ITransport tells of

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.server: _ServerSide | None = None
        #: Answers that are delayed.
        self.late: list[IDelayedCall] = []
        self._early = b""
        self._connecting: Deferred[Any] | None = None

    def connectionMade(self) -> None:  # noqa: N802
        if self.proxy.refusing:
            self.transport.abortConnection()
            return
        self.proxy.connections.append(self)
        endpoint = HostnameEndpoint(self.proxy.reactor, "127.0.0.1", self.proxy.target)
        connecting = self._connecting = endpoint.connect(Factory.forProtocol(_ServerSide))

        def connected(server: _ServerSide) -> None:
            server.client, self.server = self, server
            if not self.transport.connected:
                server.transport.abortConnection()
            server.transport.write(self._early)

        connecting.addCallbacks(connected, lambda _: self.end())

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self.proxy.swallow_requests:
            return
        if self.server is None:
            self._early += data
        else:
            self.server.transport.write(data)

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        self.end()

    def end_behind_answers(self) -> None:
        """End as the server did: after the answers, which may say why it ended (the session is over, say)."""
        if self.late:
            self.end()
        else:
            self.transport.loseConnection()

    def pass_late(self, data: bytes) -> None:
        self.late.pop(0)
        self.transport.write(data)

    def end(self) -> None:
        while self.late:
            self.late.pop().cancel()
        if self in self.proxy.connections:
            self.proxy.connections.remove(self)
        self.transport.abortConnection()
        if self.server is not None:
            self.server.transport.abortConnection()
        elif self._connecting is not None:
            self._connecting.cancel()


class _ServerSide(Protocol):
    transport: Any
    client: _ClientSide | None = None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        assert self.client is not None
        proxy = self.client.proxy
        if not proxy.swallow_answers:
            if proxy.delay:
                client = self.client
                client.late.append(proxy.reactor.callLater(proxy.delay, client.pass_late, data))
            else:
                self.client.transport.write(data)

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        if self.client is not None:
            self.client.end_behind_answers()
