"""Faults of the connections of Kafka's clients, between the network and the broker: late requests, cut connections."""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from logd.broker.listening.ports import BrokerPorts
from logd.broker.resources import Listener
from logd.interfaces import Clock, Timer


@define(eq=False)
class ConnectionFaults:
    """The faults in force, and the connections that they are done to."""

    clock: Clock
    #: Seconds between the arrival of a client's bytes and the broker's sight of them.
    seconds: float = field(default=0.0, init=False)
    connections: set[_DelayedProtocol] = field(factory=set, init=False)

    def drop(self) -> int:
        """Cut every connection off at once, and return their number. New ones are accepted."""
        found = tuple(self.connections)
        for each in found:
            each.abort()
        return len(found)


class _DelayedProtocol(Protocol):
    """Stands between a transport and the broker's protocol, which writes to that transport itself."""

    def __init__(self, inner: Any, faults: ConnectionFaults) -> None:
        self._inner = inner
        self._faults = faults
        self._late: deque[bytes] = deque()
        self._timers: deque[Timer] = deque()
        #: When the last bytes that wait are due, by the clock.
        self._last_due = 0.0

    def connectionMade(self) -> None:  # noqa: N802  # Twisted calls it
        self._faults.connections.add(self)
        self._inner.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # as above
        clock = self._faults.clock
        now = clock.seconds()
        due = now + self._faults.seconds
        if self._late:
            due = max(due, self._last_due)  # never before those that came earlier
        elif due == now:
            self._inner.dataReceived(data)
            return
        self._last_due = due
        self._late.append(data)
        self._timers.append(clock.callLater(due - now, self._hand_over))

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802  # as above
        self._faults.connections.discard(self)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._late.clear()
        self._inner.connectionLost(reason)

    def abort(self) -> None:
        """Cut the connection off."""
        transport: Any = self.transport
        transport.abortConnection()

    def _hand_over(self) -> None:
        self._timers.popleft()
        self._inner.dataReceived(self._late.popleft())


class _FaultyFactory(Factory):
    noisy = False

    def __init__(self, inner: Any, faults: ConnectionFaults) -> None:
        self._inner = inner
        self._faults = faults

    def buildProtocol(self, addr: IAddress | None) -> _DelayedProtocol:  # noqa: N802
        return _DelayedProtocol(self._inner.buildProtocol(addr), self._faults)

    def stopFactory(self) -> None:  # noqa: N802  # Twisted calls it
        self._inner.doStop()

    def startFactory(self) -> None:  # noqa: N802  # as above
        self._inner.doStart()


class FaultyPorts(BrokerPorts):
    """The ports of a broker, with faults of Kafka's clients; native clients have none."""

    def __init__(self, reactor: Any, settings: Any, faults: ConnectionFaults) -> None:
        super().__init__(reactor, settings)
        self._faults = faults

    def listen(self, factory: Factory, setting: str, place: int) -> Listener:
        """See BrokerPorts."""
        return super().listen(_FaultyFactory(factory, self._faults) if setting != "listen" else factory, setting, place)
