"""The output queue of one connection: bytes and file ranges, sent in order and under backpressure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IPullProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.interfaces import IFileRange
from logd.net.immediate_write import can_write_now, write_now
from logd.net.paced_transport import PacedConsumer
from logd.net.transfer import SendfileSender, can_sendfile
from logd.protocol.requests.fields import Piece, memory_of

#: Ranges below this size are read and written, which costs less than a sendfile (measured: equal at 20 to 32 KB). Those
#: without a descriptor can only be read.
SMALL_RANGE_BYTES = 16 << 10
#: Bytes that are written to the transport before waiting until its buffer is empty.
UNSENT_BYTES = 64 << 10


@define(eq=False)
class OutputQueue:
    """The output queue of one connection.

    ``congested`` is true while bytes wait for the peer; ``on_empty`` is called each time it becomes false.
    ``on_failed`` is called if a promised range could not be sent: the connection has to be aborted then.
    """

    _transport: Any
    _sender: SendfileSender
    _on_empty: Callable[[], None]
    _on_failed: Callable[[Failure], None]
    _queue: deque[Piece] = field(factory=deque, init=False)
    _sending: IFileRange | None = field(default=None, init=False)
    _unsent: int = field(default=0, init=False)
    #: The bytes in memory that wait in the queue: ranges of files take none.
    waiting_bytes: int = field(default=0, init=False)
    #: Bytes that are written together by ``let_go``; None while each is written at once.
    _held: list[bytes] | None = field(default=None, init=False)
    _writes_now: bool = field(default=False, init=False)
    congested: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)
    _working: bool = field(default=False, init=False)
    #: The consumer for a transport without direct access to its socket; None if sendfile can be used.
    _paced: PacedConsumer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if can_sendfile(self._transport):
            self._writes_now = can_write_now(self._transport)
        else:
            self._paced = PacedConsumer(self._transport, self._paused, self._work)
            self._paced.begin()

    def __len__(self) -> int:
        return len(self._queue)

    def hold(self) -> None:
        """Gather bytes and small ranges until ``let_go``: answers of one turn then leave in one write."""
        if self._writes_now and self._held is None:
            self._held = []

    def let_go(self) -> None:
        """Write what was gathered, and give it to the socket at once."""
        if self._held is not None:
            held = bool(self._held)
            self._write_held()
            self._held = None
            if held and not (self.congested or self._closed):
                write_now(self._transport)

    def send(self, pieces: Sequence[Piece]) -> None:
        """Queue pieces. The queue closes each range in the end, whatever happens."""
        if self._closed:
            close_pieces(pieces)
            return
        if self._held is not None and len(pieces) == 1 and not (self._queue or self.congested or self._is_full()):
            piece = pieces[0]
            if isinstance(piece, bytes):
                self._unsent += len(piece)
                self._held.append(piece)
                if self._is_full():
                    self._watch()
                return
        self._queue.extend(pieces)
        self.waiting_bytes += memory_of(pieces)
        if self.congested:
            return
        while not self.congested and self._write_small():  # under TLS the transport may pause the queue
            pass
        if self._queue:
            self._work()
        elif self._is_full():
            self._watch()

    def finish(self) -> None:
        """Unregister from the transport. Call it when the queue is empty, before the transport is told to close."""
        self._write_held()
        if self._paced is not None:
            self._paced.end()

    def close(self) -> None:
        """Drop the queue, as the connection is lost."""
        self._closed = True
        self._held = None
        queue, self._queue = self._queue, deque()
        self.waiting_bytes = 0
        close_pieces(queue)

    def _work(self) -> None:
        """Send the queue up to the next range that has to wait for the socket."""
        self.congested = True
        self._write_held()
        # A transfer may end before its call returns. A loop, since one answer may have thousands of ranges.
        self._working = True
        paced = self._paced
        while self._queue and self._sending is None and not (paced is not None and paced.paused):
            if self._write_small():
                continue
            if self._is_full():
                break
            piece = self._queue.popleft()
            assert not isinstance(piece, bytes)  # else it would have been written
            self._sending = piece
            self._write_held()
            done = self._sender.begin_file_transfer(piece, self._transport if paced is None else paced)
            done.addCallbacks(self._sent, self._failed)
        self._working = False
        if self._sending is not None or self._closed or (paced is not None and paced.paused):
            return
        if self._is_full():
            self._watch()
        else:
            self._emptied()

    def _write_small(self) -> bool:
        """Write bytes and small ranges from the front of the queue, in one call; return whether there were any.

        A transfer for each small range would cost a turn of the reactor and a packet each: an answer for thousands of
        partitions has thousands of them.
        """
        queue = self._queue
        room = UNSENT_BYTES - (self._unsent if self._paced is None else 0)
        together: list[bytes] = []
        while queue and room >= 0:
            piece = queue[0]
            data = piece if isinstance(piece, bytes) else _read_small(piece)
            if data is None:
                break
            queue.popleft()
            if isinstance(piece, bytes):
                self.waiting_bytes -= len(piece)
            else:
                piece.close()
            together.append(data)
            room -= len(data)
            self._unsent += len(data)
        if not together:
            return False
        if self._held is None:
            self._transport.write(together[0] if len(together) == 1 else b"".join(together))
        else:
            self._held += together
        return True

    def _write_held(self) -> None:
        """Write the gathered bytes to the transport."""
        held = self._held
        if held:
            self._held = []
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def _is_full(self) -> bool:
        """Return whether nothing may be written before the transport's buffer is empty; it paces itself under TLS."""
        return self._paced is None and self._unsent > UNSENT_BYTES

    def _sent(self, _: None) -> None:
        # A range that was written may still be in the transport's buffer.
        written = self._sending is not None and self._sending.file.fileno() < 0
        self._let_go()
        self._unsent = UNSENT_BYTES + 1 if written else 0
        if not self._closed and not self._working:
            self._work()

    def _failed(self, failure: Failure) -> None:
        self._let_go()
        if not self._closed:
            self.close()
            self._on_failed(failure)

    def _let_go(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.close()

    def _paused(self) -> None:
        self.congested = True

    def _watch(self) -> None:
        self.congested = True
        self._write_held()
        self._transport.registerProducer(_Drain(self._transport, self._drained), False)

    def _drained(self) -> None:
        self._unsent = 0
        if not self._closed:
            self._work()

    def _emptied(self) -> None:
        self.congested = False
        self._on_empty()


@implementer(IPullProducer)
@define(eq=False)
class _Drain:
    """A pull producer without data, which learns when the transport's buffer is empty."""

    _transport: Any
    _drained: Callable[[], None]
    _calls: int = 0

    def resumeProducing(self) -> None:  # noqa: N802
        # The first call comes from within registerProducer, with the bytes still buffered.
        self._calls += 1
        if self._calls > 1:
            self._transport.unregisterProducer()
            self._drained()

    def stopProducing(self) -> None:  # noqa: N802
        self._calls = 0


def _read_small(piece: IFileRange) -> bytes | None:
    """Return the bytes of a small range; None if it is large or not in the page cache."""
    if piece.count > SMALL_RANGE_BYTES and (piece.count > UNSENT_BYTES or piece.file.fileno() >= 0):
        return None
    try:
        data: bytes | None = piece.file.read_cached(piece.file_position, piece.count)
    except OSError:
        return None  # the transfer tries again and reports the error
    return data if data is not None and len(data) == piece.count else None


def close_pieces(pieces: Iterable[Piece]) -> None:
    """Close the file ranges among pieces that will not be sent."""
    for piece in pieces:
        if not isinstance(piece, bytes):
            piece.close()
