"""Coroutines that an object runs beside its callers: they end with the object, and their bugs are logged."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from inspect import CORO_RUNNING, getcoroutinestate
from types import coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure


class Background:
    """The coroutines of one object. ``stop`` cancels them all, with what they wait for.

    One that stops the others, perhaps by what it has called, ends where it next waits; so does one whose wait cannot be
    cancelled, as what it waits for runs at that moment, or ends otherwise. A coroutine must handle the errors that it
    expects: one that ends with an exception has a bug, which is logged, and the others go on.
    """

    _log = Logger()

    def __init__(self, what: str) -> None:
        """``what`` names the work in the log ("a bug in ...")."""
        self._what = what
        self._running: dict[Deferred[None], Coroutine[Any, Any, None]] = {}
        #: The number of stops so far.
        self._stops = 0

    def __len__(self) -> int:
        """Return the number of running coroutines."""
        return len(self._running)

    @property
    def was_stopped(self) -> bool:
        """True once ``stop`` was called."""
        return self._stops > 0

    def start(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        """Run a coroutine. The Deferred fires at its end, never fails, and cancels the coroutine when cancelled."""
        running: Deferred[None] = Deferred.fromCoroutine(self._run(work))
        if not running.called or isinstance(running.result, Failure):
            self._running[running] = work
            running.addBoth(self._ended, running)
        return running

    def stop(self) -> None:
        """Cancel all running coroutines."""
        self._stops += 1
        for running, work in tuple(self._running.items()):
            if getcoroutinestate(work) != CORO_RUNNING:
                running.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        await self._stoppable(work)

    @coroutine
    def _stoppable(self, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Run a coroutine; if a stop came that has not cancelled its wait, cancel what it waits for next.

        To cancel its own Deferred has no effect while it runs, since it waits for nothing, nor while another coroutine
        runs that it waits for.
        """
        go_on, given = work.send, None
        stops = self._stops
        while True:
            try:
                awaited = go_on(given)
            except StopIteration:
                return
            finally:
                given = None  # else the last result would stay in memory during the next wait
            if self._stops != stops:
                awaited.cancel()
            try:
                go_on, given = work.send, (yield awaited)
            except GeneratorExit:
                work.close()
                raise
            except CancelledError as error:
                go_on, given = work.throw, error
                stops = self._stops  # it may wait to tidy up
            except BaseException as error:
                go_on, given = work.throw, error

    def _ended(self, result: object, running: Deferred[None]) -> None:
        self._running.pop(running, None)
        if isinstance(result, Failure) and not result.check(CancelledError):
            self._log.failure("a bug in {what}", result, what=self._what)
