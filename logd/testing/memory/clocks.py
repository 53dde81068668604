"""The time of one process among several on one clock: it can stand still, as by SIGSTOP, and be killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer


@implementer(IDelayedCall)
class ProcessCall:
    """A call that a process has scheduled."""

    __slots__ = ("_arguments", "_call", "_clock", "_keywords", "_timer", "late", "over", "time")

    def __init__(
        self, clock: ProcessClock, time: float, call: Callable[..., object], arguments: Any, keywords: Any
    ) -> None:
        self._clock = clock
        self.time = time
        self._call = call
        self._arguments = arguments
        self._keywords = keywords
        self._timer: Any = None
        #: None while it is pending, else how it ended.
        self.over: type[Exception] | None = None
        #: True if it came due while the process stood still.
        self.late = False

    def getTime(self) -> float:  # noqa: N802
        """See IDelayedCall."""
        return self.time

    def active(self) -> bool:
        """See IDelayedCall."""
        return self.over is None

    def cancel(self) -> None:
        """See IDelayedCall."""
        self._check()
        self.over = AlreadyCancelled
        self._clock.forget(self)

    def delay(self, secondsLater: float) -> None:  # noqa: N803
        """See IDelayedCall."""
        self._check()
        self._clock.move(self, self.time + secondsLater)

    def reset(self, secondsFromNow: float) -> None:  # noqa: N803
        """See IDelayedCall."""
        self._check()
        self._clock.move(self, self._clock.seconds() + secondsFromNow)

    def run(self) -> None:
        """Call."""
        self.over = AlreadyCalled
        self._call(*self._arguments, **self._keywords)

    def _check(self) -> None:
        if self.over is not None:
            raise self.over


@implementer(IReactorTime)
class ProcessClock:
    """A clock over another one (a ``task.Clock``, or the reactor) for everything that belongs to one process.

    A dead clock still holds its scheduled calls. Otherwise Python would close their unreferenced coroutines, whose
    ``finally`` clauses would then run at any time. A test that kills a process keeps its parts until the end.

    ``pause`` makes the process stand still while the world goes on. ``resume`` makes the calls that came due meanwhile,
    in the order in which they were due, at the current time. ``kill`` ends the process: no scheduled call is made.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._calls: dict[ProcessCall, None] = {}
        self.paused = False
        self.dead = False
        #: The time of the last ``resume``; 0 for never.
        self.resumed_at = 0.0
        #: The inner clock's ``seconds``, without a step in between: it is called often.
        self.seconds: Callable[[], float] = clock.seconds

    def callLater(  # noqa: N802
        self,
        delay: float,
        callable: Callable[..., object],  # noqa: A002  # Twisted's name
        *args: Any,
        **kw: Any,
    ) -> ProcessCall:
        """See IReactorTime. A dead process never makes the call."""
        call = ProcessCall(self, self._clock.seconds() + delay, callable, args, kw)
        if not self.dead:
            self._calls[call] = None
            call._timer = self._clock.callLater(delay, self._due, call)
        return call

    def getDelayedCalls(self) -> list[ProcessCall]:  # noqa: N802
        """See IReactorTime."""
        return list(self._calls)

    def pause(self) -> None:
        """Stand still."""
        self.paused = True

    def resume(self) -> None:
        """Go on with the calls that came due meanwhile, one after another and before anything new."""
        if not self.paused or self.dead:
            return
        self.paused = False
        self.resumed_at = self.seconds()
        late = sorted((call for call in self._calls if call.late), key=ProcessCall.getTime)
        for call in late:
            call.late = False
            call._timer = self._clock.callLater(0, self._due, call)

    def kill(self) -> None:
        """End for good."""
        if self.dead:
            return
        self.dead = True
        for call in self._calls:
            call.over = AlreadyCancelled
            if not call.late:
                call._timer.cancel()

    # Called by scheduled calls.

    def forget(self, call: ProcessCall) -> None:
        """Remove a cancelled call."""
        if self._calls.pop(call, call) is None and not call.late:
            call._timer.cancel()

    def move(self, call: ProcessCall, time: float) -> None:
        """Move a call to another time."""
        if not call.late and not self.dead:
            call._timer.cancel()
        call.late, call.time = False, time
        if not self.dead:
            call._timer = self._clock.callLater(max(0.0, time - self.seconds()), self._due, call)

    def _due(self, call: ProcessCall) -> None:
        if self.paused:
            call.late = True
        else:
            del self._calls[call]
            call.run()
