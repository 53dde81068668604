"""A network in memory: listeners, connections between named hosts on one clock, and failures on the way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamClientEndpoint
from zope.interface import implementer

from logd.client.cluster.link import Connect
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock
from logd.net.connection import BrokerConnection
from logd.testing.memory.transport import MemoryTransport, Wire

#: The first port of connecting hosts.
_FIRST_PORT = 49_152


@define(eq=False)
class MemoryNetwork:
    """Connections between named hosts, with real protocols at both ends.

    ``delay()`` returns the seconds that a piece takes, 0.1 ms by default. With ``random`` writes are torn into pieces
    at random, as TCP may do. A connection's bytes never overtake one another; those of different connections may.
    """

    clock: Clock
    delay: Callable[[], float] = lambda: 0.0001
    random: Random | None = None
    #: Called with each piece that arrives: (from, to, bytes).
    observe: Callable[[MemoryTransport, MemoryTransport, bytes], None] = lambda source, target, data: None
    #: Open connections, oldest first.
    wires: dict[Wire, None] = field(factory=dict, init=False)
    #: Remains of killed processes, kept because Python would otherwise close their coroutines, which would then run.
    graveyard: list[object] = field(factory=list, init=False)
    _listeners: dict[tuple[str, int], MemoryPort] = field(factory=dict, init=False)
    _next_port: int = field(default=_FIRST_PORT, init=False)
    #: Pairs of hosts (from, to) between which nothing arrives.
    _blocked: set[tuple[str, str]] = field(factory=set, init=False)

    def listen(self, host: str, port: int, factory: IProtocolFactory, clock: Clock | None = None) -> MemoryPort:
        """Listen at ``host:port``; ``clock`` is that of the process. Raises CannotListenError if the port is taken.

        Port 0 is any free one.
        """
        if port == 0:
            port = self._free_port()
        if (host, port) in self._listeners:
            raise error.CannotListenError(host, port, OSError("address already in use"))
        listener = MemoryPort(self, host, port, factory, self.clock if clock is None else clock)
        self._listeners[host, port] = listener
        factory.doStart()
        return listener

    def endpoint(
        self, source: str, host: str, port: int, clock: Clock | None = None, timeout: float = 10.0
    ) -> MemoryEndpoint:
        """Return the endpoint from ``source`` to ``host:port``; ``clock`` is that of the connecting process."""
        return MemoryEndpoint(self, source, host, port, self.clock if clock is None else clock, timeout)

    def connector(self, source: str = "client", clock: Clock | None = None, timeout: float = 10.0) -> Connect:
        """Return the ``connect`` argument for producers, consumers and the like on the host ``source``."""

        def connect(address: Any) -> Deferred[Any]:
            if isinstance(address, str):
                raise BrokerUnavailable(f"{address!r}: a network in memory has no endpoint strings, but host and port")
            endpoint = self.endpoint(source, address[0], address[1], clock, timeout)
            connecting: Deferred[Any] = BrokerConnection.connect(None, endpoint)
            return connecting

        return connect

    # Failures.

    def cut(self, wire: Wire) -> None:
        """Break one connection: both ends learn it with the usual delay, and a part of the data under way arrives."""
        for end in wire.ends:
            end.reset_later()

    def half_open(self, wire: Wire, end: int) -> None:
        """Let one end (0: the connecting one) lose the connection; the other learns it when it next writes."""
        wire.ends[end].reset_later()

    def block(self, one: str, other: str) -> None:
        """Silently drop everything between two hosts until ``heal``."""
        self.block_one_way(one, other)
        self.block_one_way(other, one)

    def block_one_way(self, source: str, target: str) -> None:
        """Silently drop everything from one host to another until ``heal``; no connection between them can be made."""
        self._blocked.add((source, target))
        for wire in self.wires:
            for end in wire.ends:
                if (end.peer.host, end.host.host) == (source, target):
                    wire.deaf.add(end)

    def heal(self) -> None:
        """Let everything pass again; pieces held up arrive."""
        self._blocked.clear()
        for wire in tuple(self.wires):
            if wire.deaf:
                wire.deaf.clear()
                for end in wire.ends:
                    if end.other.gone and not end.gone:
                        end.reset_later()  # retransmitted, and answered with a reset
                    else:
                        end.clock.callLater(0, end.arrive_late)

    def end_host(self, host: str, quietly: bool = False) -> None:
        """End the process on a host, killed perhaps: its listeners and its ends of connections go.

        Its peers learn it soon; with ``quietly`` (a loss of power), when they next write.
        """
        for key in [key for key in self._listeners if key[0] == host]:
            del self._listeners[key]
        for wire in tuple(self.wires):
            for end in wire.ends:
                if end.host.host == host and not end.gone:
                    if not quietly and end.other not in wire.deaf and not end.other.gone:
                        end.other.reset_later()
                    end.vanish()

    # Implementation.

    def begin(self, endpoint: MemoryEndpoint, factory: Any) -> Deferred[Any]:
        """Connect."""
        connecting: Deferred[Any] = Deferred(lambda _: client.vanish())
        mine = IPv4Address("TCP", endpoint.source, self._free_port())
        there = IPv4Address("TCP", endpoint.host, endpoint.port)
        listener = self._listeners.get((endpoint.host, endpoint.port))
        clock = endpoint.clock
        wire = Wire(self.delay, self._first_piece, self.observe, self._forget)
        client = MemoryTransport(wire, clock, mine, there)
        server = MemoryTransport(wire, clock if listener is None else listener.clock, there, mine)
        client.other, server.other = server, client
        wire.ends = client, server

        def fail(reason: Exception) -> None:
            if not connecting.called:
                client.vanish()
                connecting.errback(reason)

        if self._is_blocked(endpoint.source, endpoint.host):
            server.gone = True
            clock.callLater(endpoint.timeout, fail, error.TimeoutError())
            return connecting
        out, back = self.delay(), self.delay()
        if listener is None:
            server.gone = True
            clock.callLater(out + back, fail, error.ConnectionRefusedError())
            return connecting
        self.wires[wire] = None
        now = clock.seconds()
        server.last_arrival, client.last_arrival = now + out, now + out + back

        def accept() -> None:
            protocol = None if listener.closed else listener.factory.buildProtocol(mine)
            if protocol is None:
                server.vanish()
                client.reset_later()
            else:
                server.establish(protocol)

        def established() -> None:
            if client.gone:
                fail(error.ConnectError(string="the connection was closed at once"))
            elif not connecting.called:
                protocol = factory.buildProtocol(there)
                client.establish(protocol)
                connecting.callback(protocol)

        listener.clock.callLater(out, accept)
        clock.callLater(out + back, established)
        return connecting

    def close_port(self, listener: MemoryPort) -> None:
        """Stop listening on a port."""
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    def _is_blocked(self, one: str, other: str) -> bool:
        return bool(self._blocked) and ((one, other) in self._blocked or (other, one) in self._blocked)

    def _first_piece(self, count: int) -> int:
        random = self.random
        if random is None or count < 2 or random.random() < 0.9:
            return count
        return random.randrange(1, count)

    def _forget(self, wire: Wire) -> None:
        self.wires.pop(wire, None)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


@implementer(IListeningPort)
@define(eq=False)
class MemoryPort:
    """A listener; see IListeningPort."""

    _network: MemoryNetwork
    host: str
    port: int
    factory: Any
    clock: Clock
    closed: bool = field(default=False, init=False)

    def startListening(self) -> None:  # noqa: N802
        """See IListeningPort; it listens already."""

    def stopListening(self) -> Deferred[None]:  # noqa: N802
        """See IListeningPort."""
        if not self.closed:
            self.closed = True
            self._network.close_port(self)
            self.factory.doStop()
        return succeed(None)

    def getHost(self) -> IPv4Address:  # noqa: N802
        """See IListeningPort."""
        return IPv4Address("TCP", self.host, self.port)


@implementer(IStreamClientEndpoint)
@define(eq=False)
class MemoryEndpoint:
    """An endpoint for a listener; see IStreamClientEndpoint."""

    _network: MemoryNetwork
    source: str
    host: str
    port: int
    clock: Clock
    timeout: float

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:  # noqa: N803
        """See IStreamClientEndpoint. Fails with ConnectionRefusedError, or TimeoutError when nothing arrives."""
        return self._network.begin(self, protocolFactory)
