"""Reads a node and caches the result until the watch left with it fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import WatchEvent

T = TypeVar("T")


class Watched(Generic[T]):
    """One node's data or children, read at most once for each change; ``changed()`` is called at each firing.

    A lost connection fires every watch, so a cached value never outlives its connection.
    """

    def __init__(
        self,
        coordination: ICoordination,
        path: str,
        read: Callable[[str], tuple[Deferred[T], Deferred[WatchEvent]]],
        changed: Callable[[], None],
    ) -> None:
        """``read`` is a bound ``get_and_watch`` or ``get_children_and_watch``."""
        self.path = path
        self._coordination = coordination
        self._read = read
        self._changed = changed
        self._value: T | None = None
        self._fresh = False
        self._watch: Deferred[WatchEvent] | None = None

    async def get(self) -> T | None:
        """Return the node's value, None if there is no node. Fails with a CoordinationError."""
        while not self._fresh:
            answer, watch = self._read(self.path)
            self._begin(watch)
            try:
                value = await answer
            except NoNode:
                if await self._absent():
                    return None
                continue
            except BaseException:
                self._end(watch)
                raise
            if self._watch is not watch:  # changed already, and ``changed`` was called: good until the next read
                return value
            self._value, self._fresh = value, True
        return self._value

    def close(self) -> None:
        """Forget the watch; ``changed`` is not called any more."""
        watch, self._watch = self._watch, None
        self._fresh = False
        if watch is not None:
            watch.cancel()

    async def _absent(self) -> bool:
        """Watch for the node's creation; return whether there is still none."""
        exists, watch = self._coordination.exists_and_watch(self.path)
        self._begin(watch)
        try:
            stat = await exists
        except BaseException:
            self._end(watch)
            raise
        if stat is not None:  # created in between; the next watch replaces this one
            return False
        if self._watch is watch:
            self._value, self._fresh = None, True
        return True

    def _begin(self, watch: Deferred[WatchEvent]) -> None:
        former, self._watch = self._watch, watch
        if former is not None:
            former.cancel()
        watch.addCallbacks(self._fired, _ignore, callbackArgs=(watch,))

    def _end(self, watch: Deferred[WatchEvent]) -> None:
        """Forget the watch of a read that failed."""
        if self._watch is watch:
            self._watch = None
            watch.cancel()

    def _fired(self, _event: WatchEvent, watch: Deferred[WatchEvent]) -> None:
        if self._watch is watch:
            self._watch = None
            self._fresh = False
            self._changed()


def _ignore(_failure: Failure) -> None:
    """Ignore the failure of a cancelled watch."""
