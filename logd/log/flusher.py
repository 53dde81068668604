"""Group commit: which partition is flushed next, on a few threads, and how much waits for the disk in all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from attrs import define, field

from logd.interfaces import Clock, IFileOperations, IThreads
from logd.log.mark import write_mark
from logd.log.openfiles import SharedFile


class Place(Enum):
    """Where a partition is between an append and its flush."""

    CLEAN = "nothing to flush"
    WAITING = "waits for a thread"
    SYNCING = "a thread is at it; what is appended meanwhile waits for the next turn"


@define(eq=False)
class Sync:
    """One partition's turn at the disk: what to sync, and what is visible once that is done."""

    operations: IFileOperations
    #: In the order of their offsets, the last perhaps still growing. Held; the owner thread releases them.
    files: list[SharedFile]
    #: Folders that have new names in them, which must last before anything in those files may be seen.
    folders: list[str]
    #: The log's end when the sync began.
    end: int
    #: The partition's folder.
    folder: str

    def run(self) -> None:
        """Wait for the disk (any thread). Raises OSError."""
        for shared in self.files:
            shared.file.sync_data()
        for folder in self.folders:
            self.operations.sync_directory(folder)
        write_mark(self.operations, self.folder, self.end)


@define(eq=False)
class FlushState:
    """What the flusher keeps about one partition."""

    #: The partition's settings: at this many messages it is due; after this many seconds it goes before any other.
    messages_limit: int
    seconds_limit: float
    unflushed_bytes: int = 0
    unflushed_messages: int = 0
    place: Place = Place.CLEAN
    due: bool = False
    #: When the oldest unflushed append happened, in seconds since the epoch.
    since: float = 0.0
    #: What the sync under way will make visible.
    syncing_bytes: int = 0


class Flushable(Protocol):
    """What the flusher asks of a partition log, on the owner thread."""

    flush_state: FlushState

    def begin_sync(self) -> Sync:
        """Say what to sync for all that is appended so far."""
        ...

    def end_sync(self, sync: Sync, error: BaseException | None) -> None:
        """Take the outcome: move the visible end, or go offline."""
        ...

    def announce(self) -> None:
        """Call those who waited for the visible end."""
        ...


@define(eq=False)
class Flusher:
    """Decides when each partition is flushed (ARCHITECTURE.md, "Flush and visibility").

    While fewer than ``workers`` syncs are under way an append is flushed at once. Else partitions wait: those that are
    due (an acknowledgement waits for the disk, or ``flush.messages`` is reached) take turns with those whose oldest
    append has waited longer than ``flush.ms``; then the rest, oldest first. So neither kind starves the other, and
    appends that arrive during a sync share the next one. Owner thread only.
    """

    _threads: IThreads
    _clock: Clock
    _workers: int = 2
    #: Above this many unflushed bytes in all ``_on_pressure(True)`` is called; below half of it, ``(False)``.
    _limit: int = 256 << 20
    _on_pressure: Callable[[bool], None] = lambda on: None
    unflushed_bytes: int = 0
    pressed: bool = False
    _running: int = 0
    _waiting: OrderedDict[Flushable, None] = field(factory=OrderedDict)
    _due: OrderedDict[Flushable, None] = field(factory=OrderedDict)
    _due_turn: bool = True
    _idle_callbacks: list[Callable[[], None]] = field(factory=list)

    def appended(self, log: Flushable, count: int, messages: int, now: float) -> None:
        """Note an append of ``count`` bytes; begin its flush when a thread is free."""
        state = log.flush_state
        state.unflushed_bytes += count
        state.unflushed_messages += messages
        self.unflushed_bytes += count
        if self.unflushed_bytes > self._limit and not self.pressed:
            self.pressed = True
            self._on_pressure(True)
        if state.place is Place.CLEAN:
            self._wait(log, state, now)
            self._start()
        elif state.unflushed_messages >= state.messages_limit and not state.due:
            self.due_now(log)

    def due_now(self, log: Flushable) -> None:
        """Let ``log`` go before those that only wait for their time: somebody waits for it to be on the disk."""
        state = log.flush_state
        if state.due or state.place is Place.CLEAN:
            return
        state.due = True
        if state.place is Place.WAITING:
            self._due[log] = None

    def forget(self, log: Flushable) -> None:
        """Count ``log`` no longer: it went offline, its unflushed bytes will never be flushed."""
        state = log.flush_state
        self._waiting.pop(log, None)
        self._due.pop(log, None)
        if state.place is Place.WAITING:
            state.place = Place.CLEAN
        self._settle(state.unflushed_bytes + state.syncing_bytes)
        state.unflushed_bytes = state.unflushed_messages = state.syncing_bytes = 0
        self._check_idle()

    def when_idle(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when nothing waits for the disk; at once when that is so now."""
        self._idle_callbacks.append(done)
        self._check_idle()

    def _wait(self, log: Flushable, state: FlushState, since: float) -> None:
        state.place = Place.WAITING
        state.since = since
        self._waiting[log] = None
        if state.due or state.unflushed_messages >= state.messages_limit:
            state.due = True
            self._due[log] = None

    def _start(self) -> None:
        """Give every free thread something to do."""
        while self._running < self._workers and self._waiting:
            self._sync(self._next())

    def _next(self) -> Flushable:
        oldest = next(iter(self._waiting))
        if self._due:
            state = oldest.flush_state
            overdue = self._clock.seconds() - state.since >= state.seconds_limit
            if not overdue or self._due_turn:
                self._due_turn = False
                return next(iter(self._due))
        self._due_turn = True
        return oldest

    def _sync(self, log: Flushable) -> None:
        state = log.flush_state
        self._waiting.pop(log, None)
        self._due.pop(log, None)
        state.place = Place.SYNCING
        state.due = False
        state.syncing_bytes, state.unflushed_bytes, state.unflushed_messages = state.unflushed_bytes, 0, 0
        began = self._clock.seconds()
        sync = log.begin_sync()
        self._running += 1
        self._threads.run(sync.run, lambda _, error: self._synced(log, sync, began, error))

    def _synced(self, log: Flushable, sync: Sync, began: float, error: BaseException | None) -> None:
        state = log.flush_state
        self._running -= 1
        self._settle(state.syncing_bytes)
        state.syncing_bytes = 0
        state.place = Place.CLEAN
        log.end_sync(sync, error)
        if state.unflushed_bytes:
            self._wait(log, state, began)
        else:
            state.due = False
        self._start()  # before anybody is told: the disk should not wait for them
        log.announce()
        self._check_idle()

    def _settle(self, count: int) -> None:
        self.unflushed_bytes -= count
        if self.pressed and self.unflushed_bytes <= self._limit // 2:
            self.pressed = False
            self._on_pressure(False)

    def _check_idle(self) -> None:
        if not self._running and not self._waiting and self._idle_callbacks:
            callbacks, self._idle_callbacks = self._idle_callbacks, []
            for callback in callbacks:
                callback()
