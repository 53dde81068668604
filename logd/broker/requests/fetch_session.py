"""A fetch session: the partitions that one reader watches, of which each fetch names only what has changed.

The session knows nothing of the wire. A part is waited for once: after an answer has carried it, it has to be armed
again with the position to go on from. So a fetch costs by what has changed and by what has arrived, and the partitions
in between, however many, cost nothing.
"""

from __future__ import annotations

from itertools import islice

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from logd.broker.reading import REFUSALS, ConsumedLogs, replica_refusal
from logd.broker.requests.boundary_search import QueuedSearch, Start, must_search, replaced
from logd.broker.requests.waiting_fetch import LONGEST_WAIT_MS, TURN_PARTS, LargeFetchQueue
from logd.broker.security.rights import Rights
from logd.errors import UnknownError, WireError
from logd.interfaces import Clock, IFlushListener, IThreads, Timer
from logd.log.partition import PartitionLog
from logd.log.visibility.visible_ranges import VisibleRanges
from logd.log.visibility.waiters import Wait
from logd.protocol.requests.fetch_session import SessionPart
from logd.protocol.requests.fields import size_of
from logd.security.access_rules import Operation

_log = Logger()


@implementer(IFlushListener)
@define(eq=False)
class WatchedPart:
    """One partition of a session. While it is ``armed`` an answer may carry it, once."""

    _session: FetchSession
    number: int
    topic: str
    partition: int
    leader_epoch: int
    #: The log when it was armed, None if this broker does not have it.
    log: PartitionLog | None = field(default=None, init=False)
    #: The position of the first byte to send, or the error of the search for it.
    start: Start = field(default=0, init=False)
    max_bytes: int = field(default=0, init=False)
    at_once: bool = field(default=False, init=False)
    #: True if the next answer carries the part even if it has no bytes.
    even_empty: bool = field(default=False, init=False)
    armed: bool = field(default=False, init=False)
    #: The bytes that count for the answer, and whether it has to be answered now, while it is among the ready parts.
    there: int = field(default=0, init=False)
    urgent: bool = field(default=False, init=False)
    _wait: Wait | None = field(default=None, init=False)

    def arm(self, log: PartitionLog | None, start: Start, max_bytes: int, *, at_once: bool, even_empty: bool) -> None:
        """Begin to wait for one answer."""
        self.log = log
        self.start, self.max_bytes, self.at_once, self.even_empty = start, max_bytes, at_once, even_empty
        self.armed = True

    def disarm(self) -> None:
        """Wait no more."""
        self.armed = False
        self._stop_waiting()

    def refuse(self, refusal: WireError) -> None:
        """Have the part answered with the refusal, whatever becomes of its log."""
        self._stop_waiting()
        self.start = refusal

    def _stop_waiting(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.cancel()

    def wait_for(self, log: PartitionLog, position: int) -> None:
        """Have the session look at this part once the log's visible end is at ``position``."""
        if self._wait is None:
            self._wait = log.wait_visible(position, self)

    # IFlushListener

    def visible(self, end: int) -> None:
        """Have the session look at this part: the partition's visible end has moved."""
        self._wait = None
        self._session.arrived(self)

    def failed(self, error: BaseException) -> None:
        """Have the part answered with the error, as the partition went offline or was deleted.

        The error is kept: by the time of the answer, another topic of that name may have taken the log's place.
        """
        self._wait = None
        self.start = error if isinstance(error, WireError) else UnknownError(str(error))
        self._session.arrived(self)


@define
class WaitingRequest:
    """The one request of a session that waits for an answer."""

    answer: Deferred[list[SessionPart]]
    min_bytes: int
    max_bytes: int
    #: The most bytes behind the first part that has some.
    room: int
    timer: Timer | None = None


@define(eq=False)
class FetchSession:
    """The parts that a reader watches, those among them that have something, and at most one request that waits.

    Call ``watch``, ``arm`` and ``forget`` with what has changed, and then ``fetch``. Requests are answered in their
    order: a further one has the one that waits answered first, with what there is.
    """

    _logs: ConsumedLogs
    _clock: Clock
    _threads: IThreads
    _queue: LargeFetchQueue
    _rights: Rights
    _parts: dict[int, WatchedPart] = field(factory=dict, init=False)
    #: The parts that the next answers carry, in the order of their arrival.
    _ready: dict[WatchedPart, None] = field(factory=dict, init=False)
    #: The parts without bytes that the next answer carries as well.
    _empty: dict[WatchedPart, None] = field(factory=dict, init=False)
    #: The bytes of the ready parts, and the number of those that have to be answered now.
    _total: int = field(default=0, init=False)
    _urgent: int = field(default=0, init=False)
    #: The ready parts that had room for more while a request waited, by their logs, and the bytes that are new since.
    _growing: dict[PartitionLog, VisibleRanges] = field(factory=dict, init=False)
    _more: int = field(default=0, init=False)
    _waiting: WaitingRequest | None = field(default=None, init=False)
    #: True while the session is queued to be answered: one sync may show messages of thousands of its partitions, one
    #: after the other, and all of them go into one answer.
    _queued: bool = field(default=False, init=False)
    #: The search on a thread for parts whose offset may lie inside an entry.
    _search: QueuedSearch[WatchedPart] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._search = QueuedSearch(self._threads, self._found)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def size(self) -> int:
        """The number of parts in the next answer; 0 while no request waits for it."""
        return 0 if self._waiting is None else min(len(self._ready) + len(self._empty), TURN_PARTS)

    def watch(self, number: int, topic: str, partition: int, leader_epoch: int) -> None:
        """Watch a partition under ``number``, in place of any other one with that number."""
        self.forget(number)
        self._parts[number] = WatchedPart(self, number, topic, partition, leader_epoch)

    def forget(self, number: int) -> None:
        """Watch a partition no longer. Harmless for an unknown number."""
        part = self._parts.pop(number, None)
        if part is not None and part.armed:
            self._disarm(part)

    def arm(
        self, number: int, offset: int, max_bytes: int, *, exact: bool, at_once: bool, even_empty: bool = False
    ) -> bool:
        """Have one answer carry up to ``max_bytes`` of a part from ``offset`` on; return False for an unknown number.

        Replaces what the part was armed with before. ``at_once``: the part is answered at once even if it has no bytes.
        ``even_empty``: so it is, but with the next answer, whenever that comes.
        """
        part = self._parts.get(number)
        if part is None:
            return False
        if part.armed:
            self._disarm(part)
        log = self._logs.logs.log(part.topic, part.partition)
        refusal = self._rights.topic_refusal(Operation.READ, part.topic)
        start = offset if refusal is None else refusal
        part.arm(log, start, max_bytes, at_once=at_once, even_empty=even_empty)
        if refusal is not None:
            self._look(part)
        elif log is not None and not exact and must_search(log, offset):
            self._search.add(part, log, offset)
        else:
            self._look(part)
        return True

    def fetch(
        self, max_wait_ms: int, min_bytes: int, max_bytes: int, room: int
    ) -> list[SessionPart] | Deferred[list[SessionPart]]:
        """Return the parts that have something, or a Deferred of them that fires in ``max_wait_ms`` at the latest.

        It fires as soon as they have ``min_bytes`` together, or are as many as an answer holds, or one has to be
        answered now: it has an error, the end of a closed segment, or was armed ``at_once``. ``room`` bounds the bytes
        behind the first part that has some. Never fires after ``cancel``.
        """
        if self._waiting is not None:
            self.finish()
        self._search.begin()
        waiting = WaitingRequest(Deferred(), max(1, min_bytes), max_bytes, room)
        if max_wait_ms <= 0 or self._is_enough(waiting):
            return self._take(max_bytes, room)
        self._waiting = waiting
        waiting.timer = self._clock.callLater(min(max_wait_ms, LONGEST_WAIT_MS) / 1000, self.finish)
        self._look_at_ready()  # there are any only if ``min_bytes`` asks for more than they have
        return waiting.answer

    def finish(self) -> None:
        """Answer the request that waits, if any, with what there is."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            if waiting.timer is not None and waiting.timer.active():
                waiting.timer.cancel()
            waiting.answer.callback(self._take(waiting.max_bytes, waiting.room))

    def rights_changed(self) -> None:
        """Answer what may not be read any more with an error, as access rules have changed."""
        for part in self._parts.values():
            if part.armed:
                refusal = self._rights.topic_refusal(Operation.READ, part.topic)
                if refusal is not None:
                    self._search.discard(part)
                    part.refuse(refusal)
                    self._look(part)

    def cancel(self) -> None:
        """Forget everything, as the connection is lost."""
        self._search.stop()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.timer is not None and waiting.timer.active():
            waiting.timer.cancel()
        self._stop_counting()
        for part in self._parts.values():
            part.disarm()
        self._parts.clear()
        self._ready.clear()
        self._empty.clear()

    def arrived(self, part: WatchedPart) -> None:
        """Look at a part whose log has grown or failed; the answer follows in a later turn of the reactor."""
        if part.armed:
            self._look(part)

    def moved(self, ranges: VisibleRanges) -> None:
        """Count what the ready parts of a log have got, and look at them if that may be enough; see RangesOwner."""
        waiting, more = self._waiting, ranges.count()
        self._more += more or 0
        if waiting is not None and (more is None or self._total + self._more >= waiting.min_bytes):
            self._look_at_ready()
        elif waiting is not None and ranges.incomplete:
            ranges.wait_for(ranges.counted + 1)
        else:
            self._growing.pop(ranges.log, None)

    def failed(self, ranges: VisibleRanges, error: BaseException) -> None:
        """Have the ready parts of a log answered with the error; see RangesOwner."""
        self._growing.pop(ranges.log, None)
        for part in [part for part in self._ready if part.log is ranges.log]:
            part.failed(error)

    def answer_queued(self) -> None:
        """Answer the request that waits, if there is enough for it."""
        self._queued = False
        if self._waiting is not None and self._is_enough(self._waiting):
            self.finish()

    def _look_at_ready(self) -> None:
        self._stop_counting()
        for part in tuple(self._ready):
            self._look(part)

    def _stop_counting(self) -> None:
        for ranges in self._growing.values():
            ranges.stop()
        self._growing.clear()
        self._more = 0

    def _look(self, part: WatchedPart) -> None:
        """Count the bytes of an armed part, and wait for more if it has room. Opens no file."""
        start, log = part.start, part.log
        if (
            isinstance(start, WireError)
            or log is None
            or log.offline is not None
            or replica_refusal(log) is not None
            or not log.start <= start <= log.end
            or part.leader_epoch > log.leadership.epoch
            or part.max_bytes < 0
        ):
            self._put(part, 0, True)
            return
        there = min(max(log.visible_end - start, 0), part.max_bytes)
        urgent = part.at_once or (there > 0 and log.closed_segment_end(start) <= start + there)
        if there or urgent:
            self._put(part, there, urgent)
            waiting = self._waiting
            if urgent or waiting is None or self._is_enough(waiting):
                return
            if self._total + self._more >= waiting.min_bytes:
                self._look_at_ready()  # at this part, too
            elif there < part.max_bytes:
                self._count_together(log, start, start + part.max_bytes)
        else:
            if part.even_empty:
                self._empty[part] = None
            if part.max_bytes:
                part.wait_for(log, start + 1)

    def _count_together(self, log: PartitionLog, start: int, stop: int) -> None:
        """Count what a ready part gets together with all others of its log: there may be hundreds.

        Until they are looked at, one that came after the last count, or has been disarmed, may be counted too high.
        """
        if (ranges := self._growing.get(log)) is not None:
            ranges.add(start, stop)
        else:
            ranges = self._growing[log] = VisibleRanges(self, log, log.visible_end, [start], [stop])
            ranges.wait_for(log.visible_end + 1)

    def _found(self, part: WatchedPart, start: Start) -> None:
        """Go on with a part whose entry was looked for."""
        part.start = start
        self._look(part)

    def _put(self, part: WatchedPart, there: int, urgent: bool) -> None:
        """Put a part among the ready ones, or count it again, and have the answer follow."""
        self._empty.pop(part, None)
        self._ready[part] = None
        self._total += there - part.there
        self._urgent += urgent - part.urgent
        part.there, part.urgent = there, urgent
        waiting = self._waiting
        if waiting is not None and not self._queued and self._is_enough(waiting):
            self._queued = True
            self._queue.add(self)

    def _disarm(self, part: WatchedPart) -> None:
        part.disarm()
        self._search.discard(part)
        self._empty.pop(part, None)
        if part in self._ready:
            del self._ready[part]
            self._total -= part.there
            self._urgent -= part.urgent
            part.there, part.urgent = 0, False

    def _is_enough(self, waiting: WaitingRequest) -> bool:
        # Those that an answer has no place for would wait for their bytes once more, and again for each further answer.
        return self._urgent > 0 or self._total >= waiting.min_bytes or len(self._ready) + len(self._empty) >= TURN_PARTS

    def _take(self, max_bytes: int, room: int) -> list[SessionPart]:
        """Take the ready parts, as many as an answer may hold."""
        parts: list[SessionPart] = []
        budget = max_bytes
        for part in tuple(islice(self._ready, TURN_PARTS)):
            if part.there and budget <= 0:
                break
            answer = self._read(part, budget)
            room -= size_of(answer.message_set)
            if answer.message_set:
                budget = max(min(budget - size_of(answer.message_set), room), 0)
            parts.append(answer)
            self._disarm(part)
        for part in tuple(islice(self._empty, TURN_PARTS - len(parts))):
            parts.append(self._read(part, 0))
            self._disarm(part)
        if not self._ready:
            self._stop_counting()
        return parts

    def _read(self, part: WatchedPart, budget: int) -> SessionPart:
        start, log = part.start, part.log
        if isinstance(start, REFUSALS):  # nothing is told of a log that may not be read
            return SessionPart(part.number, start.code)
        try:
            if log is None or log.offline is not None or replica_refusal(log) is not None:
                log = self._logs.find(part.topic, part.partition)
                if not isinstance(start, WireError):
                    start = replaced(log)  # no entry need begin there in it
            log.leadership.check_fetch(part.leader_epoch)
        except WireError as error:
            return SessionPart(part.number, error.code)
        try:
            if isinstance(start, WireError):
                raise start
            found = self._logs.read(log, start, min(part.max_bytes, budget))
        except WireError as error:
            return SessionPart(part.number, error.code, log.start, log.visible_end)
        except Exception:  # raised to a timer or a flush, it would leave the request unanswered
            _log.failure("reading {topic}-{partition} failed", topic=part.topic, partition=part.partition)
            return SessionPart(part.number, UnknownError.code)
        # The bytes begin at ``start``, at or before the offset that was asked for.
        return SessionPart(part.number, 0, log.start, log.visible_end, start, b"" if found is None else found)
