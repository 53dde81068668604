"""Stand-ins around a connection: threads worked by hand, files of bytes, and transports that keep all bytes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IConsumer, IPullProducer, IPushProducer
from zope.interface import implementer

from logd.interfaces import IFileRange, IThreads


@implementer(IThreads)
@define(eq=False)
class HandThreads:
    """Threads that work when ``work`` is called."""

    waiting: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = field(factory=list)

    def run(self, work: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """See IThreads."""
        self.waiting.append((work, done))

    def work(self) -> None:
        """Do everything that waits, and the works that follow from it."""
        while self.waiting:
            work, done = self.waiting.pop(0)
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)


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
    position: int
    count: int
    closed: int = 0
    unreadable_at: list[int] = field(factory=list)

    def unreadable(self, position: int, error: OSError) -> None:
        """See IFileRange."""
        self.unreadable_at.append(position)

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


@implementer(IConsumer)
class MemoryTransport:
    """A consumer without a descriptor, as a TLS transport: it pauses a push producer while too much is not taken."""

    def __init__(self, pause_above: int | None = None) -> None:
        self._written = bytearray()
        self.taken = 0
        self.pause_above = pause_above
        self.producer: Any = None

    @property
    def written(self) -> bytes:
        """Everything so far."""
        return bytes(self._written)

    @property
    def buffered(self) -> int:
        """Bytes that the peer has not taken."""
        return len(self._written) - self.taken

    def write(self, data: bytes) -> None:
        """See IConsumer."""
        self._written += data
        full = self.pause_above is not None and self.buffered > self.pause_above
        if full and IPushProducer.providedBy(self.producer):
            self.producer.pauseProducing()

    def take(self) -> None:
        """The peer takes everything."""
        self.taken = len(self._written)
        if self.producer is not None:
            self.producer.resumeProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """See IConsumer."""
        if self.producer is not None:
            raise RuntimeError("a producer is registered already")
        if not (IPushProducer if streaming else IPullProducer).providedBy(producer):
            raise RuntimeError("registered as what it is not")
        self.producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802
        """See IConsumer."""
        self.producer = None
