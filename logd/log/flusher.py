"""Group commit: the order in which partitions are flushed on a few threads, and the total of unflushed bytes."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from attrs import define, field

from logd.interfaces import Clock, IThreads, Timer
from logd.log.flush_task import FlushTask, GroupTask
from logd.log.group_sync_choice import MOST_GROUP, GroupSyncs

#: A partition that has waited this many seconds for a thread gets every second free thread, even while others are due.
OVERDUE_SECONDS = 1.0
#: Seconds until a sync that could not be made, as too many files were open, is tried again.
AGAIN_SECONDS = 0.1


class Place(Enum):
    """The state of a partition between an append and its flush."""

    CLEAN = "nothing to flush"
    GATHERING = "waits for more messages, or for its time, by flush.messages and flush.ms"
    WAITING = "waits for a thread"
    SYNCING = "a thread syncs it; later appends wait for the next sync"


@define(eq=False)
class FlushState:
    """The flusher's record of one partition."""

    #: ``flush.messages``, and ``flush.ms`` in seconds; infinity if not set.
    messages_limit: float = math.inf
    seconds_limit: float = math.inf
    unflushed_bytes: int = 0
    unflushed_messages: int = 0
    place: Place = Place.CLEAN
    due: bool = False
    #: Time of the oldest unflushed append, by the flusher's clock.
    since: float = 0.0
    #: Ends the gathering after ``flush.ms``.
    timer: Timer | None = None
    #: Bytes covered by the sync under way, and the time of the oldest of them.
    syncing_bytes: int = 0
    syncing_since: float = 0.0

    def limit(self, messages: int, milliseconds: int) -> None:
        """Apply the settings ``flush.messages`` and ``flush.ms``, each -1 if it is not set."""
        self.messages_limit = math.inf if messages == -1 else messages
        self.seconds_limit = math.inf if milliseconds == -1 else milliseconds / 1000

    def gathers(self, now: float) -> bool:
        """Return whether the partition still gathers messages: neither of its limits is reached."""
        if self.due or (self.messages_limit == math.inf and self.seconds_limit == math.inf):
            return False
        return self.unflushed_messages < self.messages_limit and now - self.since < self.seconds_limit


class Flushable(Protocol):
    """The part of PartitionLog that the flusher needs; tests flush stand-ins. Owner thread only."""

    flush_state: FlushState

    def begin_sync(self) -> FlushTask:
        """Return the task that syncs everything appended so far."""
        ...

    def end_sync(self, sync: FlushTask, error: BaseException | None) -> bool:
        """Handle the outcome of a sync: move the flushed end, or go offline; True: all of it is to be synced again."""
        ...

    def announce(self) -> None:
        """Call the listeners that wait for the visible end."""
        ...


@define(eq=False)
class Flusher:
    """Decides when each partition is flushed (docs/design/broker.md, "Flush and visibility").

    A partition with neither ``flush.messages`` nor ``flush.ms`` is ready to be flushed at its first unflushed append.
    With one of them it first gathers messages, until it has that many, until that time has passed, or until an
    acknowledgement waits for the flush. Gathering also ends, for all partitions, above half of the limit on unflushed
    bytes and when the broker stops.

    While fewer than ``workers`` syncs are under way, a ready partition is flushed at once. Otherwise ready partitions
    wait: those that are due (an acknowledgement waits) alternate with those that have waited longer than
    OVERDUE_SECONDS; then come the rest, oldest first. So neither kind starves the other, and appends that arrive during
    a sync share the next one. Where many wait, one thread syncs them together, if ``groups`` allows that. Owner thread
    only.
    """

    _threads: IThreads
    _clock: Clock
    _workers: int = 2
    #: Above this many unflushed bytes in total ``_on_pressure(True)`` is called, and at half of it ``(False)``.
    _limit: int = 256 << 20
    _on_pressure: Callable[[bool], None] = lambda on: None
    #: Called with each partition after a sync of it.
    _on_synced: Callable[[Flushable], None] = lambda log: None
    #: Decides about syncs of the whole file system; None: each partition is synced by itself.
    groups: GroupSyncs | None = None
    #: Called with the seconds of each sync, and from the oldest append that it covers until it is visible.
    observe_sync: Callable[[float], None] = lambda seconds: None
    observe_visible: Callable[[float], None] = lambda seconds: None
    unflushed_bytes: int = 0
    pressed: bool = False
    _running: int = 0
    _gathering: OrderedDict[Flushable, None] = field(factory=OrderedDict)
    _waiting: OrderedDict[Flushable, None] = field(factory=OrderedDict)
    _due: OrderedDict[Flushable, None] = field(factory=OrderedDict)
    _due_turn: bool = True
    _idle_callbacks: list[Callable[[], None]] = field(factory=list)

    def appended(self, log: Flushable, count: int, messages: int) -> None:
        """Count an append of ``count`` bytes; begin its flush if it is time for that and a thread is free."""
        state = log.flush_state
        if not state.unflushed_bytes:
            state.since = self._clock.seconds()
        state.unflushed_bytes += count
        state.unflushed_messages += messages
        self.unflushed_bytes += count
        if self.unflushed_bytes > self._limit and not self.pressed:
            self.pressed = True
            self._on_pressure(True)
        if state.place is Place.CLEAN:
            self._place(log, state)
            self._start()
        elif state.place is Place.GATHERING and state.unflushed_messages >= state.messages_limit:
            self.gather_no_more(log)
        if self._gathering and self._hurried:
            self._gather_nothing()

    def due_now(self, log: Flushable) -> None:
        """Give ``log`` priority, because an acknowledgement waits for its flush."""
        state = log.flush_state
        if state.due or state.place is Place.CLEAN:
            return
        state.due = True
        if state.place is Place.WAITING:
            self._due[log] = None
        else:
            self.gather_no_more(log)

    def gather_no_more(self, log: Flushable) -> None:
        """End the gathering of ``log``, if it gathers messages, and flush it soon."""
        state = log.flush_state
        if state.place is Place.GATHERING:
            self._end_gathering(log, state)
            self._wait(log, state)
            self._start()

    def limits_changed(self, log: Flushable) -> None:
        """Apply a partition's changed limits, also to the messages that it has gathered."""
        state = log.flush_state
        if state.place is Place.GATHERING:
            self._end_gathering(log, state)
            self._place(log, state)
            self._start()

    def forget(self, log: Flushable) -> None:
        """Forget ``log``, which went offline: its unflushed bytes will never be flushed."""
        state = log.flush_state
        if state.place is Place.GATHERING:
            self._end_gathering(log, state)
            state.place = Place.CLEAN
        self._waiting.pop(log, None)
        self._due.pop(log, None)
        if state.place is Place.WAITING:
            state.place = Place.CLEAN
        self._settle(state.unflushed_bytes + state.syncing_bytes)
        state.unflushed_bytes = state.unflushed_messages = state.syncing_bytes = 0
        self._check_idle()

    def when_idle(self, done: Callable[[], None]) -> None:
        """Flush everything, and call ``done`` once nothing waits for the disk, perhaps at once."""
        self._idle_callbacks.append(done)
        self._gather_nothing()
        self._check_idle()

    def close(self) -> None:
        """Cancel all timers; partitions that gather messages are not flushed any more."""
        while self._gathering:
            log = next(iter(self._gathering))
            self._end_gathering(log, log.flush_state)
            log.flush_state.place = Place.CLEAN

    @property
    def _hurried(self) -> bool:
        """Return whether no partition may gather, as too many bytes are unflushed or everything is to be flushed."""
        return self.unflushed_bytes > self._limit // 2 or bool(self._idle_callbacks)

    def _place(self, log: Flushable, state: FlushState) -> None:
        """Let a partition with unflushed bytes either gather more or wait for a thread."""
        now = self._clock.seconds()
        if self._hurried or not state.gathers(now):
            self._wait(log, state)
            return
        self._gather(log, state, state.since + state.seconds_limit - now)

    def _gather(self, log: Flushable, state: FlushState, seconds: float) -> None:
        state.place = Place.GATHERING
        self._gathering[log] = None
        if seconds != math.inf:
            state.timer = self._clock.callLater(seconds, self._time_is_over, log, state)

    def _time_is_over(self, log: Flushable, state: FlushState) -> None:
        state.timer = None
        self.gather_no_more(log)

    def _gather_nothing(self) -> None:
        """End all gathering: those partitions wait for a thread, the oldest first."""
        while self._gathering:
            log = next(iter(self._gathering))
            self._end_gathering(log, log.flush_state)
            self._wait(log, log.flush_state)
        self._start()

    def _end_gathering(self, log: Flushable, state: FlushState) -> None:
        del self._gathering[log]
        timer, state.timer = state.timer, None
        if timer is not None:
            timer.cancel()

    def _wait(self, log: Flushable, state: FlushState) -> None:
        state.place = Place.WAITING
        self._waiting[log] = None
        if state.due:
            self._due[log] = None

    def _start(self) -> None:
        """Begin syncs of waiting partitions on all free threads."""
        while self._running < self._workers and self._waiting:
            groups = self.groups
            if groups is not None and groups.holds(len(self._waiting)):
                groups.after_hold(self._start)
                return
            if groups is not None and groups.allows(len(self._waiting), self.unflushed_bytes):
                self._sync_group(groups)
            else:
                self._sync(self._next())

    def _next(self) -> Flushable:
        oldest = next(iter(self._waiting))
        if self._due:
            overdue = self._clock.seconds() - oldest.flush_state.since >= OVERDUE_SECONDS
            if not overdue or self._due_turn:
                self._due_turn = False
                return next(iter(self._due))
        self._due_turn = True
        return oldest

    def _begin(self, log: Flushable) -> FlushTask:
        """Take a partition from those that wait, and return the sync of all that was appended to it."""
        state = log.flush_state
        self._waiting.pop(log, None)
        self._due.pop(log, None)
        state.place = Place.SYNCING
        state.due = False
        state.syncing_bytes, state.unflushed_bytes, state.unflushed_messages = state.unflushed_bytes, 0, 0
        state.syncing_since = state.since
        return log.begin_sync()

    def _sync(self, log: Flushable) -> None:
        sync = self._begin(log)
        began = self._clock.seconds()
        self._running += 1

        def done(_: None, error: BaseException | None) -> None:
            if self.groups is not None:
                self.groups.one_took(began)
            self._synced([(log, sync, error)], began)

        self._threads.run(sync.run, done)

    def _sync_group(self, groups: GroupSyncs) -> None:
        logs: list[Flushable] = []
        syncs: list[FlushTask] = []
        while self._waiting and len(logs) < MOST_GROUP:
            logs.append(self._next())
            syncs.append(self._begin(logs[-1]))
        began = self._clock.seconds()
        self._running += 1
        groups.begun()

        def done(errors: Sequence[BaseException | None] | None, error: BaseException | None) -> None:
            groups.ended(len(syncs), self._clock.seconds() - began)
            outcomes = [error] * len(syncs) if errors is None else errors
            self._synced(list(zip(logs, syncs, outcomes, strict=True)), began)

        self._threads.run(GroupTask(groups.file_system, syncs).run, done)

    def _synced(self, outcomes: list[tuple[Flushable, FlushTask, BaseException | None]], began: float) -> None:
        self._running -= 1
        now = self._clock.seconds()
        self.observe_sync(now - began)
        for log, sync, error in outcomes:
            if error is None:
                self.observe_visible(now - log.flush_state.syncing_since)
            self._ended(log, sync, error)
        self._start()  # before the listeners are called: the disk should not wait for them
        for log, _, _ in outcomes:
            log.announce()
        self._check_idle()

    def _ended(self, log: Flushable, sync: FlushTask, error: BaseException | None) -> None:
        state = log.flush_state
        count, state.syncing_bytes = state.syncing_bytes, 0
        state.place = Place.CLEAN
        again = log.end_sync(sync, error)
        if not again:
            self._settle(count)
        self._on_synced(log)
        if again:
            state.unflushed_bytes += count
            state.since, state.due = state.syncing_since, True
            self._gather(log, state, AGAIN_SECONDS)
        elif state.unflushed_bytes:
            self._place(log, state)
        else:
            state.due = False

    def _settle(self, count: int) -> None:
        self.unflushed_bytes -= count
        if self.pressed and self.unflushed_bytes <= self._limit // 2:
            self.pressed = False
            self._on_pressure(False)

    def _check_idle(self) -> None:
        if not self._running and not self._waiting and not self._gathering and self._idle_callbacks:
            callbacks, self._idle_callbacks = self._idle_callbacks, []
            for callback in callbacks:
                callback()
