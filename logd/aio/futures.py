"""Deferreds for asyncio's tasks: futures that cancel their Deferred, and coroutines over Deferreds within a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")


class DeferredFuture(asyncio.Future[T]):
    """A future with the result of a Deferred. Cancelling it, or the task that awaits it, cancels the Deferred at once.

    ``Deferred.asFuture`` cancels in a callback, one turn of the loop later; the loop then makes a handle for each
    future, cancelled or not.
    """

    __slots__ = ("deferred",)  # a dictionary for each future costs as much as the future

    def __init__(self, loop: asyncio.AbstractEventLoop, deferred: Deferred[T]) -> None:
        super().__init__(loop=loop)
        #: The Deferred, until either has a result.
        self.deferred: Deferred[T] | None = deferred

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the future and the Deferred. Returns False, without effect, once there is a result."""
        if not super().cancel(msg):
            return False
        deferred, self.deferred = self.deferred, None
        if deferred is not None:
            deferred.cancel()
        return True


def future_for(loop: asyncio.AbstractEventLoop, deferred: Deferred[T]) -> DeferredFuture[T]:
    """Return a future that gets the Deferred's result, or its error unchanged, and is cancelled if the Deferred is."""
    future = DeferredFuture(loop, deferred)
    deferred.addBoth(_settle, future)
    return future


def _settle(result: Any, future: DeferredFuture[Any]) -> None:
    future.deferred = None
    if future.done():  # cancelled, so the result is dropped
        return
    if not isinstance(result, Failure):
        future.set_result(result)
    elif (error := result.value) is None or isinstance(error, defer.CancelledError):
        future.cancel()
    elif isinstance(error, StopIteration):  # which no future takes; a partitioner of the application may raise it
        future.set_exception(RuntimeError(f"{type(error).__name__} was raised: {error}"))
    else:
        future.set_exception(error)


def deferred_of(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> Deferred[T]:
    """Await in a task of ``loop``; return a Deferred of the result. Cancelling it cancels the task.

    A task that is cancelled fails it with Twisted's CancelledError, for which Twisted's timeouts look.
    """
    return Deferred.fromFuture(asyncio.ensure_future(_finished(awaitable), loop=loop))


async def _finished(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except asyncio.CancelledError as error:
        raise defer.CancelledError from error


async def drive(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> T:
    """Run a coroutine over Deferreds within the current task of ``loop``, and return its result.

    The coroutine ends in the task's own step, not in a Deferred's callback: so no cancellation can come in between and
    lose what the coroutine took before it returned, such as messages of a stream. Cancelling the task cancels the
    Deferred that the coroutine waits for.
    """
    steps = awaitable.__await__()
    cancelled: asyncio.CancelledError | None = None
    try:
        waiting: Deferred[Any] = steps.send(None)
        while True:
            woken = loop.create_future()
            waiting.addBoth(_wake, woken)
            try:
                await woken
            except asyncio.CancelledError as error:
                cancelled = error
                _give_up(waiting)
                waiting = steps.throw(defer.CancelledError())
            except GeneratorExit:
                _give_up(waiting)
                steps.close()
                raise
            else:
                waiting = steps.send(None)
    except StopIteration as end:
        result: T = end.value
    except defer.CancelledError:
        if cancelled is None:
            raise
    if cancelled is not None:
        raise cancelled
    return result


def _wake(result: Any, woken: asyncio.Future[None]) -> Any:
    if not woken.done():
        woken.set_result(None)
    return result


def _give_up(waiting: Deferred[Any]) -> None:
    waiting.addErrback(lambda _: None)
    waiting.cancel()
