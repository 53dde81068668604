"""A minimal TCP load balancer: each connection goes to the next of its servers that can be reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.interfaces import IAddress, IListeningPort
from twisted.internet.protocol import Factory, Protocol


class _Half(Protocol):
    """One side of a connection: its bytes go out at the other side, which pauses it when it cannot take them."""

    other: _Half | None = None
    waiting: bytes = b""

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted calls it
        """See IProtocol."""
        if self.other is None:
            self.waiting += data
        else:
            transport: Any = self.other.transport
            transport.write(data)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802  # as above
        """See IProtocol."""
        if self.other is not None:
            transport: Any = self.other.transport
            transport.loseConnection()


class _Making(Factory):
    """A factory that makes each connection's protocol by a call."""

    def __init__(self, make: Callable[[], Protocol]) -> None:
        self._make = make

    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # noqa: N802  # as above
        """See IProtocolFactory."""
        return self._make()


def _join(one: _Half, two: _Half) -> None:
    for half, other in ((one, two), (two, one)):
        half.other = other
        transport: Any = half.transport
        transport.registerProducer(other.transport, True)
        data, half.waiting = half.waiting, b""
        if data:
            other.transport.write(data)  # type: ignore[union-attr]  # it is connected


@define(eq=False)
class Balancer:
    """Listens on a free port of loopback and spreads connections over ``ports``."""

    reactor: Any
    ports: list[int]
    #: The number of connections that each server got.
    taken: dict[int, int] = field(factory=dict)
    _turn: int = 0
    _listening: IListeningPort | None = None

    def start(self) -> str:
        """Listen, and return the address for clients."""
        factory = _Making(self._accept)
        self._listening = self.reactor.listenTCP(0, factory, interface="127.0.0.1")
        address: Any = self._listening.getHost()
        return f"127.0.0.1:{address.port}"

    def stop(self) -> Any:
        """Take no more connections; open ones end by themselves."""
        return self._listening.stopListening() if self._listening is not None else None

    def _accept(self) -> _Half:
        client = _Half()
        self._connect(client, len(self.ports))
        return client

    def _connect(self, client: _Half, left: int) -> None:
        port = self.ports[self._turn % len(self.ports)]
        self._turn += 1
        connecting = TCP4ClientEndpoint(self.reactor, "127.0.0.1", port, timeout=5).connect(_Making(_Half))

        def connected(server: Any) -> None:
            self.taken[port] = self.taken.get(port, 0) + 1
            _join(client, server)

        def failed(_: object) -> None:
            transport: Any = client.transport
            if left > 1:
                self._connect(client, left - 1)
            else:
                transport.loseConnection()

        connecting.addCallbacks(connected, failed)
