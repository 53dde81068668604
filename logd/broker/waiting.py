"""A fetch that waits for messages: answered when there are enough, when a segment's end is reached, or in time."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from zope.interface import implementer

from logd.broker.reading import Logs, find_log, read_range
from logd.errors import StaleLeaderEpoch, WireError
from logd.interfaces import Clock, IFileRange, IFlushListener, ITopics, Timer
from logd.log.partition import PartitionLog
from logd.log.waiters import Wait
from logd.protocol.fetch_wait import FetchPart, FetchWait

#: Milliseconds; a request may not park itself on the broker for longer.
LONGEST_WAIT_MS = 60_000

#: Where to read a part from, or why that cannot be told.
Start = int | WireError


@frozen
class ReadPart:
    """What one part of a fetch came to; its bytes begin at ``first_position``, at or before the offset asked for."""

    part: FetchPart
    error: int
    log_start: int = -1
    visible_end: int = -1
    first_position: int = -1
    found: IFileRange | None = None

    @property
    def count(self) -> int:
        """How many bytes were found."""
        return 0 if self.found is None else self.found.count


@implementer(IFlushListener)
@define(eq=False)
class WaitingFetch:
    """One FetchWait request under way. ``answer`` is called once, unless ``cancel`` was."""

    _request: FetchWait
    _starts: list[Start]
    _logs: Logs
    _topics: ITopics
    _clock: Clock
    _max_bytes: int
    _answer: Callable[[WaitingFetch, FetchWait, list[ReadPart]], None]
    _waits: list[Wait] = field(factory=list, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Answer now if there is enough, else start to wait."""
        if not self._try() and not self._over:
            seconds = min(max(self._request.max_wait_ms, 0), LONGEST_WAIT_MS) / 1000
            self._timer = self._clock.callLater(seconds, self.finish)

    def finish(self) -> None:
        """Answer with what there is."""
        if not self._over:
            self._end(self._read())

    def cancel(self) -> None:
        """Forget the request: nobody waits for it."""
        self._over = True
        self._stop_waiting()

    # IFlushListener's two.

    def visible(self, end: int) -> None:
        """A partition's visible end has moved."""
        if not self._over:
            self._try()

    def failed(self, error: BaseException) -> None:
        """A partition went away: its part is answered with the error."""
        self.finish()

    def _try(self) -> bool:
        self._stop_waits()
        enough, waiting_for = self._look()
        if enough or self._request.max_wait_ms <= 0 or not waiting_for:
            self._end(self._read())
            return True
        for log, position in waiting_for:
            wait = log.wait_visible(position, self)
            if wait is not None:
                self._waits.append(wait)
        return False

    def _look(self) -> tuple[bool, list[tuple[PartitionLog, int]]]:
        """Whether there is something to answer, else what to wait for: no file is opened for it."""
        total = 0
        waiting_for: list[tuple[PartitionLog, int]] = []
        wanted = max(self._request.min_bytes, 1)
        for part, start in zip(self._request.parts, self._starts, strict=True):
            try:
                log = find_log(self._logs, self._topics, part.topic, part.partition)
            except WireError:
                return True, []
            if (
                isinstance(start, WireError)
                or not log.start <= start <= log.end
                or part.leader_epoch > 0
                or part.max_bytes < 0
            ):
                return True, []
            there = max(log.visible_end - start, 0)
            if there and log.closed_segment_end(start) <= start + min(there, part.max_bytes):
                return True, []
            total += min(there, part.max_bytes)
            if there < part.max_bytes:
                waiting_for.append((log, self._position_to_wait_for(log, start + there, start, part.max_bytes)))
        return total >= wanted, waiting_for

    def _position_to_wait_for(self, log: PartitionLog, there: int, start: int, max_bytes: int) -> int:
        """Where the log's visible end has to be for another look: one byte more can always be what was missing."""
        if len(self._request.parts) > 1:
            return there + 1
        # Alone, a part can tell how many it needs, unless its segment is closed before: then it has to be answered.
        enough = start + min(max(self._request.min_bytes, 1), max_bytes)
        return min(enough, max(log.roll_above, there) + 1)

    def _read(self) -> list[ReadPart]:
        budget = min(self._request.max_bytes, self._max_bytes) if self._request.max_bytes > 0 else self._max_bytes
        parts: list[ReadPart] = []
        for part, start in zip(self._request.parts, self._starts, strict=True):
            try:
                if part.leader_epoch > 0:
                    raise StaleLeaderEpoch(f"leader epoch {part.leader_epoch} is not this broker's")
                log = find_log(self._logs, self._topics, part.topic, part.partition)
                if isinstance(start, WireError):
                    raise start
                try:
                    found = read_range(log, start, min(part.max_bytes, budget))
                except WireError as error:
                    parts.append(ReadPart(part, error.code, log.start, log.visible_end))
                    continue
                read = ReadPart(part, 0, log.start, log.visible_end, start, found)
            except WireError as error:
                read = ReadPart(part, error.code)
            parts.append(read)
            budget -= read.count
        return parts

    def _end(self, parts: list[ReadPart]) -> None:
        self._over = True
        self._stop_waiting()
        self._answer(self, self._request, parts)

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        self._stop_waits()

    def _stop_waits(self) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.cancel()
