"""Work that a client does in the background: coroutines that end with it, and whose bugs are logged."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.interfaces import Clock


class Background:
    """The coroutines of one client. ``close`` cancels them all, their timers too."""

    _log = Logger()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[Deferred[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine."""
        running = Deferred.fromCoroutine(work)
        if running.called and not isinstance(running.result, Failure):
            return
        self._running[running] = None
        running.addBoth(self._ended, running)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await deferLater(self._clock, seconds)  # type: ignore[arg-type]  # a Clock has callLater, which is all it takes

    def close(self) -> None:
        """Cancel what runs."""
        for running in tuple(self._running):
            running.cancel()

    def _ended(self, result: object, running: Deferred[None]) -> None:
        self._running.pop(running, None)
        if isinstance(result, Failure) and not result.check(CancelledError):
            self._log.failure("a bug in the background", result)
