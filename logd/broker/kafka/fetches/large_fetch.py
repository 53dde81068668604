"""A fetch of very many partitions: begun, waited for and answered a piece at a time, with other work in between.

Each part takes some microseconds to look at, to wait for, to stop waiting for and to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.requests.fetch import FetchRequests
from logd.broker.requests.waiting_fetch import LONGEST_WAIT_MS, WaitingFetch
from logd.deferreds.fair_turns import FairTurns
from logd.interfaces import Clock, Timer
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait

#: Parts that are handled at a time: some milliseconds.
PIECE_PARTS = 500


def pieces_of(count: int) -> list[slice]:
    """Return the pieces of a fetch of so many parts."""
    return [slice(begin, begin + PIECE_PARTS) for begin in range(0, count, PIECE_PARTS)]


@define(eq=False)
class FetchPiece(WaitingFetch):
    """Some parts of a large fetch. ``on_enough()`` is called once they have enough bytes while they are listened to."""

    _on_enough: Callable[[], None] = field(kw_only=True)

    def finish_or_queue(self) -> None:
        """See WaitingFetch."""
        if not self._over:
            self._over = True
            self._on_enough()

    def cancel(self) -> None:
        """Wait no more."""
        WaitingFetch.cancel(self)
        self._growing.clear()


@define(eq=False)
class LargeFetch:
    """One large fetch under way: ``add`` its pieces, ``wait``, then ``read`` them in order, and ``cancel`` in the end.

    It is enough that one piece has its share of the bytes that are wanted: if all together have them, so has one.
    """

    _native: FetchRequests
    _clock: Clock
    #: The most bytes of the answer; and behind the first part that has some, what the user's quota leaves.
    _budget: int
    _room: int
    #: See FetchRequests.
    _began: int = field(init=False)
    pieces: list[FetchPiece] = field(factory=list, init=False)
    #: The number of parts.
    size: int = field(default=0, init=False)
    #: True while no piece has enough bytes.
    must_wait: bool = field(default=True, init=False)
    #: Fires when there is enough, None while nothing waits.
    _enough: Deferred[None] | None = field(default=None, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _is_cancelled: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._native.finishes

    async def add(self, request: FetchWait) -> None:
        """Take the parts of a request as the next piece."""
        native = self._native
        found = native.find_starts(request)
        starts = await found if isinstance(found, Deferred) else found
        piece = native.waiting_fetch(request, starts, partial(FetchPiece, on_enough=self.finish))
        self.pieces.append(piece)
        self.size += len(request.parts)
        self.must_wait = self.must_wait and piece.must_wait()

    async def wait(self, max_wait_ms: int, turns: FairTurns) -> None:
        """Wait until there is enough, or the time is over, or the connection is lost."""
        native = self._native
        if not self.must_wait or not native.may_wait(self.size, self._began):
            return
        enough = self._enough = Deferred[None]()
        enough.addCallback(lambda _: native.end_wait(self, self.size))
        self._timer = self._clock.callLater(min(max(max_wait_ms, 0), LONGEST_WAIT_MS) / 1000, self.finish)
        native.begin_wait(self, self.size)
        native.cut_off_oldest()
        for piece in self.pieces:
            if turns.over:
                await turns.rest()
            if not self.must_wait:
                break
            piece.listen()
        if not self._is_cancelled:
            await enough

    def finish(self) -> None:
        """End the wait: the answer has the bytes there are."""
        enough = self._stop_waiting()
        if enough is not None:
            enough.callback(None)

    def cancel(self) -> None:
        """Release everything, as the fetch is answered or its connection is lost."""
        self._is_cancelled = True
        self._stop_waiting()
        for piece in self.pieces:
            piece.cancel()

    def read(self, piece: FetchPiece) -> Sequence[FetchedPart]:
        """Return the parts of the next piece with the bytes there are now; each range has to be closed."""
        piece.cancel()
        parts = piece.read_parts(self._budget, self._room)
        for part in parts:
            if part.message_set:
                self._room -= part.message_set.count
                self._budget = max(min(self._budget - part.message_set.count, self._room), 0)
        self._native.count_answer(parts)
        return parts

    def _stop_waiting(self) -> Deferred[None] | None:
        self.must_wait = False
        enough, self._enough = self._enough, None
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        return enough
