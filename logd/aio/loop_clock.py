"""The clock of an event loop, in place of a reactor's, which also closes the loop's clients when the loop ends."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.aio.futures import future_for

#: Seconds within which clients that were not closed must disconnect when their loop shuts down.
FAREWELL_SECONDS = 5.0

#: Closes a client at once, without waiting for what is not delivered. Must not refer to the client itself.
CloseNow = Callable[[Any], Deferred[None]]


class LoopTimer:
    """A call that the loop makes later, once."""

    __slots__ = ("_call", "_clock", "_due", "_handle")

    def __init__(self, clock: LoopClock, delay: float, call: Callable[[], object]) -> None:
        self._clock = clock
        self._due = clock.seconds() + delay
        self._call: Callable[[], object] | None = call
        self._handle = clock.begin(delay, self._fire)

    def cancel(self) -> None:
        """Do not make the call."""
        self._call = None
        self._handle.cancel()

    def active(self) -> bool:
        """Return whether the call is still to be made."""
        return self._call is not None

    def _fire(self) -> None:
        early = self._due - self._clock.seconds()
        if early > 0:  # uvloop rounds to milliseconds, but callers rely on the whole delay having passed
            self._handle = self._clock.begin(early, self._fire)
            return
        call, self._call = self._call, None
        if call is not None:
            call()


class LoopClock:
    """The Clock of the clients of one event loop, also for their calls from other threads.

    When ``asyncio.run`` or ``loop.shutdown_asyncgens`` ends the loop, clients that are still open are closed, so that a
    group's partitions go to others at once and no socket or thread is left.

    Its calls run in an empty context, not in that of the task (a web request, say) that happened to be the first to
    send.
    """

    _log = Logger()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the time of ``loop``, which is running on this thread."""
        self.loop = loop
        self.ended = False
        self._clients: weakref.WeakKeyDictionary[Any, CloseNow] = weakref.WeakKeyDictionary()
        # The first step registers the generator with the loop, which closes it in shutdown_asyncgens.
        self._until_shutdown = _until_shutdown(self)
        with suppress(StopIteration):
            self._until_shutdown.__anext__().send(None)

    def add(self, client: Any, close_now: CloseNow) -> None:
        """Call ``close_now(client)`` when the loop shuts down, unless the client is removed or dropped before."""
        self._clients[client] = close_now

    def remove(self, client: Any) -> None:
        """Forget a client, since it is closed."""
        self._clients.pop(client, None)

    async def end(self) -> None:
        """Close the clients that are still open."""
        self.ended = True
        left = dict(self._clients)
        for client in left:
            self._log.warn(
                "{name} was still open when its event loop ended, and was closed now: messages that a producer has not "
                'delivered are lost. Use the client in a block of "async with", or await its close()',
                name=type(client).__name__,
            )
        closing = [future_for(self.loop, close_now(client)) for client, close_now in left.items()]
        if closing:
            await asyncio.wait(closing, timeout=FAREWELL_SECONDS)

    # The methods of a Clock, and those of a reactor for other threads.

    def seconds(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> LoopTimer:  # noqa: A002, N802
        """Call ``callable(*args)`` after ``delay`` seconds."""
        return LoopTimer(self, delay, (lambda: callable(*args)) if args else callable)

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:  # noqa: A002, N802
        """Call in the loop's thread, in the order of these requests; do nothing once the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(callable, *args, context=Context())
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def begin(self, delay: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        """Have the loop make a call after ``delay`` seconds, in an empty context."""
        return self.loop.call_later(delay, call, context=Context())


async def _until_shutdown(clock: LoopClock) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await clock.end()


_clocks: weakref.WeakValueDictionary[int, LoopClock] = weakref.WeakValueDictionary()


def clock_of_running_loop() -> LoopClock:
    """Return the clock of the running loop, which its clients share. Raises RuntimeError without a running loop."""
    loop = asyncio.get_running_loop()
    clock = _clocks.get(id(loop))  # the clock refers to its loop: while the clock lives, no other loop has that id
    if clock is None or clock.ended:
        clock = _clocks[id(loop)] = LoopClock(loop)
    return clock
