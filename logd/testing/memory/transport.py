"""One end of a connection in memory: its bytes arrive at the other end in order, in pieces, some time later."""

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

#: Bytes on their way, or waiting to be read, before a transport asks its producer to pause, as Twisted's.
BUFFER_BYTES = 64 << 10


@define(eq=False)
class Wire:
    """What both ends of a connection share."""

    #: Seconds for the next piece.
    delay: Callable[[], float]
    #: How many bytes of a write of so many go first; the rest follows later. Return them all to keep it whole.
    first_piece: Callable[[int], int]
    #: Told of each piece that arrives: (from, to, bytes).
    observe: Callable[[MemoryTransport, MemoryTransport, bytes], None]
    #: Called when neither end knows the connection any more.
    ended: Callable[[Wire], None]
    ends: tuple[MemoryTransport, MemoryTransport] = field(init=False)
    #: Nothing arrives, and nobody is told, until ``MemoryNetwork.heal``.
    silent: bool = False


@implementer(ITransport, IConsumer, IPushProducer)
@define(eq=False)
class MemoryTransport:
    """See ITransport. ``clock`` is that of the process which this end belongs to."""

    wire: Wire
    clock: Clock
    host: IPv4Address
    peer: IPv4Address
    protocol: IProtocol | None = field(default=None, init=False)
    other: MemoryTransport = field(init=False)
    #: From ``makeConnection`` to ``connectionLost``.
    connected: bool = field(default=False, init=False)
    disconnecting: bool = field(default=False, init=False)
    #: The process is gone, or the connection is over here: bytes that come are answered by a reset.
    gone: bool = field(default=False, init=False)
    producer: Any = field(default=None, init=False)
    #: When what was sent last arrives here: nothing overtakes.
    last_arrival: float = field(default=0.0, init=False)
    #: Sent to this end, and not arrived. None: the other end has closed.
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
    #: Pieces that should have arrived while the wire was silent.
    _held_up: int = field(default=0, init=False)
    #: Set by protocols; without a meaning here.
    bufferSize: int = field(default=BUFFER_BYTES, init=False)  # noqa: N815  # Twisted's name

    # What protocols call.

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
        """See ITransport: what was written arrives; a producer that is registered is waited for."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._finish_if_done()

    def abortConnection(self) -> None:  # noqa: N802
        """See ITCPTransport: what is on its way may not arrive."""
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
            raise RuntimeError(f"{producer!r} cannot be registered: {self.producer!r} is")
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

    # What the network calls.

    def establish(self, protocol: IProtocol) -> None:
        """The connection is made."""
        if self.gone:
            return
        self.protocol, self.connected = protocol, True
        protocol.makeConnection(self)

    def send_here(self, data: bytes | None) -> None:
        """Let bytes (None: the end) set out to this end. What would arrive with the bytes before them joins them."""
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
        """The next piece is here, unless the wire is silent."""
        if self.wire.silent:
            self._held_up += 1
        elif self.coming and not self.gone:
            data = self.coming.popleft()
            self.arrived.append(None if data is None else bytes(data))
            if not self._reading:
                self._read()

    def arrive_late(self) -> None:
        """The wire is silent no more."""
        held_up, self._held_up = self._held_up, 0
        for _ in range(held_up):
            self.arrive()

    def reset_later(self) -> None:
        """Let this end learn that the connection is over; what arrives before that is read."""
        self.last_arrival = max(self.last_arrival, self.clock.seconds())
        self.clock.callLater(self.wire.delay(), self._reset)

    def lose(self, reason: Exception) -> None:
        """The connection is over for this end."""
        if self.gone:
            return
        self.vanish()
        producer, self.producer = self.producer, None
        if self.protocol is not None:
            if producer is not None:
                producer.stopProducing()
            self.protocol.connectionLost(Failure(reason))

    def vanish(self) -> None:
        """The connection is over for this end, and its process is not told (it is gone, perhaps)."""
        self.gone, self.connected = True, False
        self.coming.clear()
        self.arrived.clear()
        if self.other.gone:
            self.wire.ended(self.wire)

    # The inside.

    def _reset(self) -> None:
        if not self.wire.silent:
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
        """The other end has read so many bytes of what was written here."""
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
