"""Locks by name: one holder at a time for each name, any number of names at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define, field

from logd.deferreds.locking import QueueLock
from logd.deferreds.waiting import WaitingDeferreds


@define(eq=False)
class NamedLocks:
    """Locks by name. ``async with locks.hold(name)`` waits until that lock is free; waiters get it in order."""

    _locks: dict[str, QueueLock] = field(factory=dict, init=False)
    _idle: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of ``name`` inside the block. Cancelling gives up the place in the queue."""
        lock = self._locks.setdefault(name, QueueLock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked and self._locks.get(name) is lock:
                del self._locks[name]
                self._tell()

    async def when_idle(self) -> None:
        """Wait until no lock is held or waited for."""
        while self._locks:
            await self._idle.new()

    def _tell(self) -> None:
        if not self._locks:
            self._idle.fire(None)
