"""Transfers of file ranges to a transport: by sendfile(2) over a plain socket, else read and written in pieces.

Twisted has no sendfile, but its public interfaces are enough: ``resumeProducing`` of a pull producer is called exactly
when the transport's own buffer is empty, and at that moment bytes written to the socket directly keep the order.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer, IPullProducer, IPushProducer, ISSLTransport
from zope.interface import implementer

from logd.errors import LogdError
from logd.interfaces import IFile, IFileRange, IThreads

#: Bytes sent in one turn of the reactor, so that a transfer of a large range does not delay the others.
TURN_BYTES = 1 << 20
#: Bytes whose last page is checked for in the page cache before they are sent: about one read-ahead window.
PIECE_BYTES = 128 << 10


class TransferFailed(LogdError):
    """A range could not be sent whole: the file is shorter than promised or unreadable, or the connection was lost."""


class PeerLeft(TransferFailed):
    """The connection was lost during a transfer, which is no fault of the broker."""


def can_sendfile(transport: Any) -> bool:
    """Return whether bytes may be written to the transport's socket directly: a plain stream socket, not TLS."""
    return (
        not ISSLTransport.providedBy(transport)
        and not getattr(transport, "TLS", False)
        and callable(getattr(transport, "fileno", None))
        and callable(getattr(transport, "startWriting", None))
    )


class SendfileSender:
    """Sends file ranges to consumers, like ``twisted.protocols.basic.FileSender``."""

    def __init__(self, threads: IThreads) -> None:
        """``threads`` read the pages that are not in the page cache."""
        self._threads = threads

    def begin_file_transfer(self, file_range: IFileRange, consumer: IConsumer) -> Deferred[None]:
        """Register a producer with ``consumer`` that sends the whole range, then unregister the producer.

        The Deferred fires when the kernel (or the consumer's buffer) has the last byte. It fails with TransferFailed if
        the range cannot be sent: a length was promised before, so the connection has to be aborted. A thread may be
        reading the file until the Deferred fires; the caller may close the range after that.
        """
        if can_sendfile(consumer) and file_range.file.fileno() >= 0:
            by_sendfile = _BySendfile(file_range, consumer, self._threads)
            consumer.registerProducer(by_sendfile, False)
            return by_sendfile.done
        by_writing = _ByWriting(file_range, consumer, self._threads)
        consumer.registerProducer(by_writing, True)
        by_writing.resumeProducing()
        return by_writing.done


@define(eq=False)
class _Transfer:
    """The part that both kinds of transfer share: the file position, the reads of cold pages, and the end."""

    _range: IFileRange
    _consumer: Any
    _threads: IThreads
    done: Deferred[None] = field(factory=Deferred, init=False)
    _file_position: int = field(init=False)
    _left: int = field(init=False)
    _file: IFile = field(init=False)
    _warming: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    #: The failure of an ended transfer; None if the whole range was sent.
    _error: Exception | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._file_position = self._range.file_position
        self._left = self._range.count
        self._file = self._range.file

    def stopProducing(self) -> None:  # noqa: N802
        """Fail the transfer, as the connection is lost. Called by the transport."""
        self._finish(PeerLeft("the connection was lost"))

    def _finish(self, error: Exception | None = None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        self._consumer.unregisterProducer()
        if not self._warming:  # else a thread is reading the file, which the caller closes once ``done`` fires
            self._tell()

    def _tell(self) -> None:
        if self._error is None:
            self.done.callback(None)
        else:
            self.done.errback(self._error)

    def _unreadable(self, file_position: int, error: BaseException) -> None:
        """Fail the transfer after a failed read, and have later fetches stop short of the unreadable bytes."""
        if isinstance(error, OSError):
            self._range.unreadable(file_position, error)
        self._finish(TransferFailed(f"cannot read {self._file.path} at byte {file_position}: {error}"))

    def _too_short(self) -> TransferFailed:
        text = f"{self._file.path} is shorter than promised: nothing at byte {self._file_position}"
        self._range.unreadable(self._file_position, OSError(errno.EIO, text))
        return TransferFailed(text)

    def _warm(self, then: Callable[[], None]) -> None:
        """Read the next turn's bytes on another thread, only to have them in the page cache; then call ``then``."""
        file, at, end = self._file, self._file_position, self._file_position + min(self._left, TURN_BYTES)

        def read() -> None:
            nonlocal at
            while at < end and not self._over and (got := len(file.read_at(at, min(PIECE_BYTES, end - at)))):
                at += got

        def warmed(_: None, error: BaseException | None) -> None:
            self._warming = False
            if self._over:
                self._tell()
            elif error is not None:
                self._unreadable(at, error)
            else:
                then()

        self._warming = True
        self._threads.run(read, warmed)


@implementer(IPullProducer)
@define(eq=False)
class _BySendfile(_Transfer):
    #: Set by the first call, which comes from within registerProducer while earlier bytes may still be buffered.
    _registered: bool = field(default=False, init=False)
    #: A range just read from the disk is sent without checking the page cache again: under memory pressure its pages
    #: may be evicted by then, and checking for ever would send nothing.
    _warmed_to: int = field(default=0, init=False)

    def resumeProducing(self) -> None:  # noqa: N802
        if self._over or self._warming:
            return
        if not self._registered:
            self._registered = True
            self._consumer.startWriting()
            return
        try:
            self._send_turn()
        except (BrokenPipeError, ConnectionResetError):
            self._finish(PeerLeft("the connection was lost"))
        except OSError as error:
            if error.errno == errno.EIO:  # this errno comes from disks, not from sockets
                self._unreadable(self._file_position, error)
            else:
                self._finish(TransferFailed(f"cannot send {self._file.path}: {error}"))
        except TransferFailed as error:
            self._finish(error)

    def _send_turn(self) -> None:
        socket, file = self._consumer.fileno(), self._file
        turn = TURN_BYTES
        while self._left and turn > 0:
            wanted = min(self._left, PIECE_BYTES)
            if self._file_position >= self._warmed_to and not file.is_cached(self._file_position, wanted):
                self._warmed_to = self._file_position + min(self._left, TURN_BYTES)
                self._warm(self._consumer.startWriting)
                return
            try:
                sent = os.sendfile(socket, file.fileno(), self._file_position, wanted)
            except (BlockingIOError, InterruptedError):
                break
            if sent == 0:
                raise self._too_short()
            self._file_position += sent
            self._left -= sent
            turn -= sent
            if sent < wanted:
                break
        if self._left:
            self._consumer.startWriting()
        else:
            self._finish()


@implementer(IPushProducer)
@define(eq=False)
class _ByWriting(_Transfer):
    _paused: bool = field(default=False, init=False)

    def pauseProducing(self) -> None:  # noqa: N802
        self._paused = True

    def resumeProducing(self) -> None:  # noqa: N802
        self._paused = False
        while not (self._paused or self._over or self._warming):
            try:
                data = self._file.read_cached(self._file_position, min(self._left, PIECE_BYTES))
            except OSError as error:
                self._unreadable(self._file_position, error)
                return
            if data is None:
                self._warm(self._write_warmed)
                return
            self._write(data)

    def _write_warmed(self) -> None:
        try:
            data = self._file.read_at(self._file_position, min(self._left, PIECE_BYTES))
        except OSError as error:
            self._unreadable(self._file_position, error)
            return
        self._write(data)
        if not self._paused:
            self.resumeProducing()

    def _write(self, data: bytes) -> None:
        if not data:
            self._finish(self._too_short())
            return
        self._file_position += len(data)
        self._left -= len(data)
        self._consumer.write(data)
        if not self._left:
            self._finish()
