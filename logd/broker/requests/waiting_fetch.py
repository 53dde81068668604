"""A fetch that waits: answered once there are enough bytes, at a segment's end, or at the request's time limit."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.reading import REFUSALS, ConsumedLogs
from logd.broker.requests.boundary_search import Start
from logd.errors import UnknownError, WireError
from logd.interfaces import Clock, Timer
from logd.log.partition import PartitionLog
from logd.log.visibility.visible_ranges import VisibleRanges
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse

_log = Logger()

#: The longest wait of a request, in milliseconds.
LONGEST_WAIT_MS = 60_000

#: A fetch with more parts than this is queued. A turn of the reactor ends with the fetch that brings it to this many
#: parts; each part costs some 10 us.
LARGE_FETCH_PARTS = 100
TURN_PARTS = 1000


def failed_answer(request: FetchWait) -> FetchWaitResponse:
    """Log the exception being handled, a bug, and return the response that has the unknown error for each part."""
    _log.failure("a fetch of {count} parts failed; answering with an unknown error", count=len(request.parts))
    return FetchWaitResponse(
        tuple([FetchedPart(part.topic, part.partition, UnknownError.code) for part in request.parts])
    )


class QueuedFetch(Protocol):
    """A fetch that is answered in a later turn of the reactor."""

    @property
    def size(self) -> int:
        """The number of parts in the answer; 0 once the answer is not wanted any more."""
        ...

    def answer_queued(self) -> None:
        """Answer now, if the answer is still wanted."""


@define(eq=False)
class LargeFetchQueue:
    """A queue of the large fetches of all connections, which answers some in each turn of the reactor.

    Hundreds may wait for one flush; answered together they would hold up all other work for seconds.
    """

    _clock: Clock
    _queue: deque[QueuedFetch] = field(factory=deque, init=False)
    _scheduled: bool = field(default=False, init=False)

    def add(self, fetch: QueuedFetch) -> None:
        """Queue a fetch to be answered soon."""
        self._queue.append(fetch)
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            self._clock.callLater(0, self._answer_some)

    def _answer_some(self) -> None:
        """Answer the first fetches of the queue. Those that were answered or cancelled meanwhile cost nothing."""
        self._scheduled = False
        fetches = []
        parts = 0
        while self._queue and parts < TURN_PARTS:
            fetch = self._queue.popleft()
            parts += fetch.size
            fetches.append(fetch)
        self._schedule()
        for fetch in fetches:
            fetch.answer_queued()


@define(eq=False)
class WaitingFetch:
    """One FetchWait request under way. If ``must_wait`` returns true, call ``wait``, else ``read`` for the answer.

    ``must_wait`` checks all parts once. Afterwards, when a partition grows, its own parts are counted again together.
    """

    _request: FetchWait
    _starts: list[Start]
    _logs: ConsumedLogs
    _clock: Clock
    _large_fetches: LargeFetchQueue
    _max_bytes: int
    #: The most bytes behind the first part that has some: what the user's quota leaves.
    _room: int
    #: Created by ``wait``: most fetches far behind the end of a log never wait.
    _response: Deferred[FetchWaitResponse] | None = field(default=None, init=False)
    #: The parts that have room for more bytes, by their logs.
    _growing: list[VisibleRanges] = field(factory=list, init=False)
    #: The number of visible bytes, over all parts.
    _total: int = field(default=0, init=False)
    #: The number of parts that have room for more bytes.
    _incomplete: int = field(default=0, init=False)
    _timer: Timer | None = field(default=None, init=False)
    #: True while the fetch is queued to be answered.
    _queued: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)

    @property
    def size(self) -> int:
        """The number of parts in the answer; 0 once the answer is not wanted any more."""
        return 0 if self._over else len(self._request.parts)

    def must_wait(self) -> bool:
        """Return whether there are too few bytes to answer now."""
        return self._look_at_all() and not self._is_enough()

    def wait(self) -> Deferred[FetchWaitResponse]:
        """Wait until there are enough bytes, at most for the request's time. Never fires after ``cancel``."""
        response: Deferred[FetchWaitResponse] = Deferred()
        self._response = response
        self.listen()
        if not self._over:
            seconds = min(max(self._request.max_wait_ms, 0), LONGEST_WAIT_MS) / 1000
            self._timer = self._clock.callLater(seconds, self.finish_or_queue)
        return response

    def listen(self) -> None:
        """Have the parts of each log counted when it grows."""
        for ranges in self._growing:
            ranges.wait_for(self._position_to_wait_for(ranges))

    def finish_or_queue(self) -> None:
        """Answer with the bytes there are: a small fetch at once, a large one when the queue reaches it."""
        if len(self._request.parts) <= LARGE_FETCH_PARTS:
            self.finish()
        elif not self._queued:
            self._queued = True
            self._large_fetches.add(self)

    def finish(self) -> None:
        """Answer with the bytes there are."""
        if not self._over and self._response is not None:
            self._over = True
            self._stop_waiting()
            try:
                answer = self.read()
            except Exception:  # raised to a timer or a flush, it would leave the request unanswered
                answer = failed_answer(self._request)
            self._response.callback(answer)

    def answer_queued(self) -> None:
        """Answer with the bytes there are, as the queue has reached this fetch."""
        self.finish()

    def cancel(self) -> None:
        """Forget the request, as its connection is lost."""
        self._over = True
        self._stop_waiting()

    def moved(self, ranges: VisibleRanges) -> None:
        """Count the parts of one log again, as it has grown; see RangesOwner."""
        if self._over or self._queued:
            return
        incomplete = ranges.incomplete
        more = ranges.count()
        if more is None:
            self.finish_or_queue()
            return
        self._total += more
        self._incomplete += ranges.incomplete - incomplete
        if self._is_enough():
            self.finish_or_queue()
        elif ranges.incomplete:
            ranges.wait_for(self._position_to_wait_for(ranges))

    def failed(self, ranges: VisibleRanges, error: BaseException) -> None:
        """Answer with the bytes there are, as a log went offline or was deleted; see RangesOwner."""
        self.finish_or_queue()

    def _look_at_all(self) -> bool:
        """Check every part without opening a file. Return False if one of them has to be answered now."""
        growing: dict[PartitionLog, VisibleRanges] = {}
        for part, start in zip(self._request.parts, self._starts, strict=True):
            try:
                log = self._logs.find(part.topic, part.partition)
            except WireError:
                return False
            if (
                isinstance(start, WireError)
                or not log.start <= start <= log.end
                or part.leader_epoch > log.leadership.epoch
                or part.max_bytes < 0
            ):
                return False
            there = min(max(log.visible_end - start, 0), part.max_bytes)
            if there and log.closed_segment_end(start) <= start + there:
                return False
            self._total += there
            if there < part.max_bytes:  # else the part is full
                stop = start + part.max_bytes
                if (ranges := growing.get(log)) is None:
                    growing[log] = VisibleRanges(self, log, log.visible_end, [start], [stop])
                else:
                    ranges.add(start, stop)
                self._incomplete += 1
        self._growing = list(growing.values())
        return True

    def _is_enough(self) -> bool:
        request = self._request
        return self._total >= max(request.min_bytes, 1) or request.max_wait_ms <= 0 or not self._incomplete

    def _position_to_wait_for(self, ranges: VisibleRanges) -> int:
        """Return the visible end that is worth another count. With several parts, one byte more may be enough."""
        there = max(ranges.counted, ranges.first)
        if len(self._request.parts) > 1:
            return there + 1
        # A single part knows the bytes it needs, unless its segment is closed earlier: then it has to be answered.
        enough = ranges.first + min(max(self._request.min_bytes, 1), self._request.parts[0].max_bytes)
        return min(enough, max(ranges.log.roll_above, there) + 1)

    def read(self) -> FetchWaitResponse:
        """Return the response with the bytes there are now."""
        budget = min(self._request.max_bytes, self._max_bytes) if self._request.max_bytes > 0 else self._max_bytes
        return FetchWaitResponse(tuple(self.read_parts(budget, self._room)))

    def read_parts(self, budget: int, room: int) -> list[FetchedPart]:
        """Return the parts with the bytes there are now, at most ``budget`` together.

        ``room`` is the most behind the first part that has some.
        """
        parts: list[FetchedPart] = []
        for part, start in zip(self._request.parts, self._starts, strict=True):
            topic, partition = part.topic, part.partition
            if isinstance(start, REFUSALS):  # nothing is told of a log that may not be read
                parts.append(FetchedPart(topic, partition, start.code))
                continue
            try:
                log = self._logs.find(topic, partition)
                log.leadership.check_fetch(part.leader_epoch)
            except WireError as error:
                parts.append(FetchedPart(topic, partition, error.code))
                continue
            try:
                if isinstance(start, WireError):
                    raise start
                found = self._logs.read(log, start, min(part.max_bytes, budget))
            except WireError as error:
                parts.append(FetchedPart(topic, partition, error.code, log.start, log.visible_end))
                continue
            # The bytes begin at ``start``, at or before the offset that was asked for.
            ends = log.start, log.visible_end
            if found is None:
                parts.append(FetchedPart(topic, partition, 0, *ends, start))
            else:
                parts.append(FetchedPart(topic, partition, 0, *ends, start, found))
                room -= found.count
                budget = max(min(budget - found.count, room), 0)
        return parts

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        for ranges in self._growing:
            ranges.stop()
