"""Coroutines that an object runs beside its callers: they end with the object, and their bugs are logged."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure


class Background:
    """The coroutines of one object. ``stop`` cancels them all, with what they wait for.

    A coroutine must handle the errors that it expects: one that ends with an exception has a bug, which is logged, and
    the others go on.
    """

    _log = Logger()

    def __init__(self, what: str) -> None:
        """``what`` names the work in the log ("a bug in ...")."""
        self._what = what
        self._running: dict[Deferred[None], None] = {}

    def __len__(self) -> int:
        """Return the number of running coroutines."""
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        """Run a coroutine. The Deferred fires at its end, never fails, and cancels the coroutine when cancelled."""
        running = Deferred.fromCoroutine(work)
        if not running.called or isinstance(running.result, Failure):
            self._running[running] = None
            running.addBoth(self._ended, running)
        return running

    def stop(self) -> None:
        """Cancel all running coroutines."""
        for running in tuple(self._running):
            running.cancel()

    def _ended(self, result: object, running: Deferred[None]) -> None:
        self._running.pop(running, None)
        if isinstance(result, Failure) and not result.check(CancelledError):
            self._log.failure("a bug in {what}", result, what=self._what)
