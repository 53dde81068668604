"""A cache of a node's children and their values, kept current by watches, so that reading never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.coord.errors import CoordinationError, NoAuth, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import EventType, SessionState
from logd.deferreds.background import Background
from logd.deferreds.fair_turns import FairTurns, RestingWorks
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import OneTimeEvent
from logd.interfaces import Clock

T = TypeVar("T")

#: Seconds before a failed read is retried while the session is alive.
RETRY_SECONDS = 1.0


def _ignore(name: str) -> None:
    """Do nothing: the listener of a cache without a listener."""


class ChildCache(Generic[T]):
    """``values[name]`` is the decoded value of the child ``name`` of ``path``, as last read.

    Values stay while the tree is away; after that everything is read again. A value that cannot be decoded is logged
    and left out. ``changed(name)`` is called when a child was created, changed or deleted.
    """

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        path: str,
        decode: Callable[[str, bytes], T],
        changed: Callable[[str], None] = _ignore,
    ) -> None:
        """``decode(name, data)`` raises ValueError for an invalid value."""
        self.values: dict[str, T] = {}
        #: True once everything was read.
        self.complete = False
        self._coordination = coordination
        self._clock = clock
        self._path = path
        self._decode = decode
        self._changed = changed
        self._background = Background(f"watching {path}")
        #: The task that follows each child; None while the task starts.
        self._following: dict[str, Deferred[None] | None] = {}
        self._first: set[str] = set()
        #: The logged reason for each child that cannot be used.
        self._unreadable: dict[str, str] = {}
        self._listed = False
        self._completed = OneTimeEvent()
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Start reading; the session may come later."""
        self._unsubscribe = self._coordination.subscribe(self._session_changed)
        if self._coordination.state is SessionState.CONNECTED:
            self._begin()

    def when_complete(self) -> Deferred[None]:
        """Return a Deferred that fires when everything was read once. Cancellable; never fails."""
        return self._completed.wait()

    @property
    def unreadable(self) -> bool:
        """True while there are children whose values cannot be used."""
        return bool(self._unreadable)

    def stop(self) -> None:
        """Stop reading; the values stay."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
        self._end()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._begin()
        else:
            # The watches fire and the reads fail, so that the tasks end by themselves: to cancel ten thousand of them
            # would take more of this turn.
            self._forget_tasks()

    def _begin(self) -> None:
        self._end()
        self._listed = False
        self._background.start(self._list())

    def _end(self) -> None:
        self._forget_tasks()
        self._background.stop()

    def _forget_tasks(self) -> None:
        self._following.clear()
        self._first.clear()

    @property
    def _connected(self) -> bool:
        """False from the loss of the connection on: the next one begins all tasks anew."""
        return self._coordination.state is SessionState.CONNECTED

    @staticmethod
    def _cancel(work: Deferred[None] | None) -> None:
        if work is not None:
            work.cancel()

    async def _list(self) -> None:
        """Read the names again each time that they have changed."""
        coordination = self._coordination
        while True:
            answer, watch = coordination.get_children_and_watch(self._path)
            try:
                names = set(await answer)
            except NoNode:
                await self._make()
                continue
            except CoordinationError as error:
                if not self._connected:
                    return
                await self._pause(error)
                continue
            for name in [name for name in self._following if name not in names]:
                self._cancel(self._following.pop(name))
            self._first &= names
            for name in [name for name in self.values if name not in names]:
                self._drop(name)
            self._unreadable = {name: text for name, text in self._unreadable.items() if name in names}
            fresh = names.difference(self._following)
            self._first |= fresh
            self._listed = True
            turns = FairTurns(self._clock, RestingWorks(self._clock))
            for name in sorted(fresh):
                if turns.over:
                    await turns.rest()
                    if not self._connected:
                        return
                self._begin_to_follow(name)
            self._check_complete()
            if (await watch).type is EventType.SESSION:
                return

    def _begin_to_follow(self, name: str) -> None:
        self._following[name] = None
        following = self._background.start(self._follow(name))
        if name in self._following:
            self._following[name] = following

    async def _follow(self, name: str) -> None:
        """Read one child again each time that it has changed."""
        path = f"{self._path}/{name}"
        while True:
            answer, watch = self._coordination.get_and_watch(path)
            try:
                data, _ = await answer
            except NoNode:
                self._following.pop(name, None)
                self._drop(name)
                self._seen(name)
                return
            except NoAuth as error:
                self._not_readable(name, error)
                self._seen(name)
                await self._pause(error)
                continue
            except CoordinationError as error:
                if not self._connected:
                    return
                await self._pause(error)
                continue
            self._take(name, data)
            self._seen(name)
            if (await watch).type is EventType.SESSION:
                return

    def _take(self, name: str, data: bytes) -> None:
        try:
            value = self._decode(name, data)
        except Exception as error:  # a bad value makes only its own node unusable
            self._not_readable(name, error)
            self._drop(name)
            return
        self._unreadable.pop(name, None)
        if name not in self.values or self.values[name] != value:
            self.values[name] = value
            self._notify(name)

    def _not_readable(self, name: str, error: Exception) -> None:
        """Log the error once for each reason."""
        text = str(error)
        if self._unreadable.get(name) != text:
            self._unreadable[name] = text
            self._log.error("{path}/{name} cannot be read: {error}", path=self._path, name=name[:200], error=text)

    def _drop(self, name: str) -> None:
        if self.values.pop(name, None) is not None:
            self._notify(name)

    def _notify(self, name: str) -> None:
        try:
            self._changed(name)
        except Exception:
            self._log.failure(
                "cannot apply the change of {path}/{name}: the listener failed", path=self._path, name=name
            )

    def _seen(self, name: str) -> None:
        self._first.discard(name)
        self._check_complete()

    def _check_complete(self) -> None:
        if self._listed and not self._first and not self.complete:
            self.complete = True
            self._completed.happen()

    async def _make(self) -> None:
        try:
            await self._coordination.create(self._path, makepath=True)
        except NodeExists:
            pass
        except CoordinationError as error:
            await self._pause(error)

    async def _pause(self, error: CoordinationError) -> None:
        """Wait before the next attempt; a restored session starts over by itself."""
        self._log.debug("reading {path} again: {error}", path=self._path, error=str(error))
        await sleep(self._clock, RETRY_SECONDS)
