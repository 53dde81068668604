"""One end of a connection in memory: its bytes arrive at the other end in order, in pieces, with a delay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IProtocol, IPushProducer, ITransport
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.interfaces import Clock

#: Bytes under way, or waiting to be read, before a transport pauses its producer, as in Twisted.
BUFFER_BYTES = 64 << 10


@define(eq=False)
class Wire:
    """The state that both ends of a connection share."""

    #: Seconds for the next piece.
    delay: Callable[[], float]
    #: Returns how many bytes of a write of so many are sent first; the rest follows later. All of them: no tearing.
    first_piece: Callable[[int], int]
    #: Called with each piece that arrives: (from, to, bytes).
    observe: Callable[[MemoryTransport, MemoryTransport, bytes], None]
    #: Called when neither end knows the connection any more.
    ended: Callable[[Wire], None]
    ends: tuple[MemoryTransport, MemoryTransport] = field(init=False)
    #: The ends at which nothing arrives, and which are told of nothing, until ``MemoryNetwork.heal``.
    deaf: set[MemoryTransport] = field(factory=set)


@implementer(ITransport, IConsumer, IPushProducer)
@define(eq=False)
class MemoryTransport:
    """See ITransport. ``clock`` is that of the process which owns this end."""

    wire: Wire
    clock: Clock
    host: IPv4Address
    peer: IPv4Address
    protocol: IProtocol | None = field(default=None, init=False)
    other: MemoryTransport = field(init=False)
    #: From ``makeConnection`` to ``connectionLost``.
    connected: bool = field(default=False, init=False)
    disconnecting: bool = field(default=False, init=False)
    #: True if the process is gone, or the connection is over here: further bytes are answered by a reset.
    gone: bool = field(default=False, init=False)
    producer: Any = field(default=None, init=False)
    #: The time when the latest piece arrives here: nothing overtakes it.
    last_arrival: float = field(default=0.0, init=False)
    #: Pieces sent to this end that have not arrived. None: the other end has closed.
    coming: deque[bytearray | None] = field(factory=deque, init=False)
    #: Arrived, and not read.
    arrived: deque[bytes | None] = field(factory=deque, init=False)
    _streaming: bool = field(default=False, init=False)
    _paused: bool = field(default=False, init=False)
    _producer_paused: bool = field(default=False, init=False)
    #: Bytes written here that the other end has not read.
    _unread: int = field(default=0, init=False)
    _finished: bool = field(default=False, init=False)
    _reading: bool = field(default=False, init=False)
    #: Pieces that should have arrived while this end was deaf.
    _held_up: int = field(default=0, init=False)
    #: Set by protocols; without effect here.
    bufferSize: int = field(default=BUFFER_BYTES, init=False)  # noqa: N815  # Twisted's name

    # Called by protocols.

    def write(self, data: bytes) -> None:
        """See ITransport."""
        if not data or not self.connected or self._finished:
            return
        if self.other.gone:
            self.reset_later()
            return
        self._unread += len(data)
        cut = self.wire.first_piece(len(data))
        self.other.send_here(data[:cut])
        if cut < len(data):
            self.other.send_here(data[cut:])
        if self._streaming and self._unread > BUFFER_BYTES and not self._producer_paused:
            self._producer_paused = True
            self.producer.pauseProducing()

    def writeSequence(self, iovec: Iterable[bytes]) -> None:  # noqa: N802
        """See ITransport."""
        self.write(b"".join(iovec))

    def loseConnection(self) -> None:  # noqa: N802
        """See ITransport: written data arrives; a registered producer is waited for."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._finish_if_done()

    def abortConnection(self) -> None:  # noqa: N802
        """See ITCPTransport: data under way may not arrive."""
        if self.connected and not self._finished:
            self.disconnecting = self._finished = self._paused = True
            self.other.reset_later()
            self.clock.callLater(0, self.lose, ConnectionAborted())

    def getPeer(self) -> IPv4Address:  # noqa: N802
        """See ITransport."""
        return self.peer

    def getHost(self) -> IPv4Address:  # noqa: N802
        """See ITransport."""
        return self.host

    def pauseProducing(self) -> None:  # noqa: N802
        """Read no more for now."""
        self._paused = True

    def resumeProducing(self) -> None:  # noqa: N802
        """Read again."""
        if self._paused and not self.disconnecting:
            self._paused = False
            if self.arrived and not self._reading:
                self.clock.callLater(0, self._read)

    def stopProducing(self) -> None:  # noqa: N802
        """See IProducer."""
        self.loseConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """See IConsumer."""
        if self.producer is not None:
            raise RuntimeError(f"{producer!r} cannot be registered: {self.producer!r} is registered already")
        if not self.connected:
            producer.stopProducing()
            return
        self.producer, self._streaming, self._producer_paused = producer, streaming, False
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:  # noqa: N802
        """See IConsumer."""
        self.producer, self._streaming = None, False
        if self.disconnecting:
            self._finish_if_done()

    # Called by the network.

    def establish(self, protocol: IProtocol) -> None:
        """Establish the connection."""
        if self.gone:
            return
        self.protocol, self.connected = protocol, True
        protocol.makeConnection(self)

    def send_here(self, data: bytes | None) -> None:
        """Send bytes (None: the end) to this end. Bytes that would arrive with earlier ones join them."""
        arrival = self.clock.seconds() + self.wire.delay()
        if data is not None and self.coming and self.last_arrival >= arrival:
            last = self.coming[-1]
            if last is not None:
                last += data
                return
        self.last_arrival = arrival = max(self.last_arrival, arrival)
        self.coming.append(None if data is None else bytearray(data))
        self.clock.callLater(arrival - self.clock.seconds(), self.arrive)

    def arrive(self) -> None:
        """Deliver the next piece, unless this end is deaf."""
        if self in self.wire.deaf:
            self._held_up += 1
        elif self.coming and not self.gone:
            data = self.coming.popleft()
            self.arrived.append(None if data is None else bytes(data))
            if not self._reading:
                self._read()

    def arrive_late(self) -> None:
        """Deliver the pieces held up while this end was deaf."""
        held_up, self._held_up = self._held_up, 0
        for _ in range(held_up):
            self.arrive()

    def reset_later(self) -> None:
        """Tell this end later that the connection is over; pieces that arrive before are read."""
        self.last_arrival = max(self.last_arrival, self.clock.seconds())
        self.clock.callLater(self.wire.delay(), self._reset)

    def lose(self, reason: Exception) -> None:
        """End the connection for this end."""
        if self.gone:
            return
        self.vanish()
        producer, self.producer = self.producer, None
        if self.protocol is not None:
            if producer is not None:
                producer.stopProducing()
            self.protocol.connectionLost(Failure(reason))

    def vanish(self) -> None:
        """End the connection for this end without notifying its process, which may be gone."""
        self.gone, self.connected = True, False
        self.coming.clear()
        self.arrived.clear()
        if self.other.gone:
            self.wire.ended(self.wire)

    # Implementation.

    def _reset(self) -> None:
        if self not in self.wire.deaf:
            self.lose(ConnectionLost())

    def _read(self) -> None:
        self._reading = True
        try:
            while self.arrived and self.connected and not self._paused:
                data = self.arrived.popleft()
                if data is None:
                    self.lose(ConnectionDone())
                    return
                self.other._was_read(len(data))
                self.wire.observe(self.other, self, data)
                assert self.protocol is not None
                self.protocol.dataReceived(data)
        finally:
            self._reading = False

    def _was_read(self, count: int) -> None:
        """Count bytes written here that the other end has read."""
        before, self._unread = self._unread, self._unread - count
        if self.producer is None or self.gone:
            return
        if self._streaming:
            if self._producer_paused and before > BUFFER_BYTES // 2 >= self._unread:
                self.clock.callLater(0, self._resume_producer)
        elif self._unread == 0:
            self.clock.callLater(0, self._resume_producer)

    def _resume_producer(self) -> None:
        if self.producer is not None and self.connected and (self._producer_paused or not self._streaming):
            self._producer_paused = False
            self.producer.resumeProducing()

    def _finish_if_done(self) -> None:
        if self.producer is None and not self._finished:
            self._finished = True
            if not self.other.gone:
                self.other.send_here(None)
            self.clock.callLater(0, self.lose, ConnectionDone())
