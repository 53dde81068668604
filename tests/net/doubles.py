"""Stand-ins around a connection: files of bytes, and transports that keep all bytes."""

from __future__ import annotations

import socket
from typing import Any

from attrs import define, field
from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IConsumer, IPullProducer, IPushProducer
from twisted.internet.testing import MemoryReactorClock, StringTransport
from zope.interface import implementer

from logd.interfaces import IFileRange

#: Bytes that a transport buffers before it pauses a push producer, as Twisted's do.
TRANSPORT_BYTES = 64 << 10


@define(eq=False)
class BytesFile:
    """An IFile for reading: ``cold`` positions are not in its page cache until they are read."""

    content: bytes
    descriptor: int = -1
    cold: bool = False
    path: str = "/data/topic-0/00000000000000000000.log"
    reads: list[tuple[int, int]] = field(factory=list)

    def read_at(self, position: int, count: int) -> bytes:
        """See IFile."""
        self.reads.append((position, count))
        self.cold = False
        return self.content[position : position + count]

    def read_cached(self, position: int, count: int) -> bytes | None:
        """See IFile."""
        return None if self.cold else self.content[position : position + count]

    def is_cached(self, position: int, count: int) -> bool:
        """See IFile."""
        return not self.cold

    def fileno(self) -> int:
        """See IFile."""
        return self.descriptor


@implementer(IFileRange)
@define(eq=False)
class Range:
    """A range that counts how often it was closed."""

    file: Any
    file_position: int
    count: int
    closed: int = 0
    unreadable_at: list[int] = field(factory=list)

    def unreadable(self, file_position: int, error: OSError) -> None:
        """See IFileRange."""
        self.unreadable_at.append(file_position)

    def close(self) -> None:
        """See IFileRange."""
        self.closed += 1


@implementer(IConsumer)
class SocketTransport:
    """The part of Twisted's TCP transport that sendfile needs, over a real socket, turned by hand."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.settimeout(5)
        self.buffer = b""
        self.producer: Any = None
        self.streaming = False
        self.writing = False

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.near.fileno()

    def write(self, data: bytes) -> None:
        """Buffer the bytes, as Twisted does."""
        self.buffer += data
        self.writing = True

    def startWriting(self) -> None:  # noqa: N802
        """Ask to be told when the socket takes bytes."""
        self.writing = True

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """See IConsumer."""
        if self.producer is not None:
            raise RuntimeError("a producer is registered already")
        self.producer, self.streaming = producer, streaming
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:  # noqa: N802
        """See IConsumer."""
        self.producer = None

    def turn(self) -> None:
        """Send what the socket takes, as Twisted's doWrite does."""
        self.writing = False
        if self.buffer:
            sent = self.near.send(self.buffer)
            self.buffer = self.buffer[sent:]
        if self.buffer:
            self.writing = True
        elif self.producer is not None and not self.streaming:
            self.producer.resumeProducing()

    def run(self, count: int) -> bytes:
        """Turn until the far end has ``count`` bytes."""
        got = b""
        while len(got) < count:
            if self.writing:
                self.turn()
            self.far.setblocking(False)
            try:
                got += self.far.recv(1 << 20)
            except BlockingIOError:
                if not self.writing:
                    break
        return got

    def close(self) -> None:
        """Close both ends."""
        self.near.close()
        self.far.close()


class PeerTransport(StringTransport):
    """A transport without a socket, whose peer the test plays; it keeps all that is written.

    While the peer takes nothing, a push producer is paused above ``buffer_bytes``, as Twisted's transports do.
    """

    producer: Any

    def __init__(self, *, taking: bool = True, buffer_bytes: int = TRANSPORT_BYTES, host: str = "10.0.0.7") -> None:
        address = IPv4Address("TCP", host, 40_000)
        super().__init__(peerAddress=address, lenient=True)  # type: ignore[no-untyped-call]  # Twisted's
        self.taking = taking
        self.buffer_bytes = buffer_bytes
        #: Bytes that the peer has not taken.
        self.untaken = 0

    def write(self, data: bytes) -> None:
        """See ITransport."""
        super().write(data)  # type: ignore[no-untyped-call]  # as above
        self.untaken += len(data)
        if not self.taking and self.untaken > self.buffer_bytes and IPushProducer.providedBy(self.producer):
            self.producer.pauseProducing()

    def take(self) -> None:
        """Take what has been written so far, so that the producer goes on."""
        self.untaken = 0
        if self.producer is not None:
            self.producer.resumeProducing()

    def take_all(self) -> bytes:
        """Take everything from now on; return the bytes that have come since the last call."""
        self.taking = True
        self.take()
        return self.received()

    def received(self) -> bytes:
        """Return the bytes written since the last call."""
        data = bytes(self.value())
        self.clear()
        return data

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """See IConsumer; the producer has to be of the kind that it is registered as."""
        if not (IPushProducer if streaming else IPullProducer).providedBy(producer):
            raise RuntimeError(f"{producer!r} is registered as what it is not")
        super().registerProducer(producer, streaming)  # type: ignore[no-untyped-call]  # as above


class DirectTransport(FileDescriptor):
    """A transport of Twisted's, whose socket takes ``room`` bytes."""

    def __init__(self, room: int = 1 << 20) -> None:
        super().__init__(MemoryReactorClock())
        self.connected = 1
        self.room = room
        self.error: Exception | None = None
        self.written: list[bytes] = []
        #: True while the reactor is to write.
        self.waits = False

    def fileno(self) -> int:
        """Return the number of a descriptor, as sockets do."""
        return 1

    def writeSomeData(self, data: bytes) -> int | Exception:  # noqa: N802
        """Take what there is room for."""
        if self.error is not None:
            return self.error
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.written += [taken] if taken else []
        return len(taken)

    def startWriting(self) -> None:  # noqa: N802
        """Note that the reactor is to write."""
        self.waits = True

    def stopWriting(self) -> None:  # noqa: N802
        """Note that all is written."""
        self.waits = False

    def stopReading(self) -> None:  # noqa: N802
        """Stay as it is."""
