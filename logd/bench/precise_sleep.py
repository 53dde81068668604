"""Sleeps that end within a tenth of a millisecond, by a timer of the kernel that can be waited for as a descriptor.

The timers of epoll are late by a millisecond or two. A bench that stays awake instead keeps a processor busy, for which
the broker and the disk's own threads have to wait where there are only two.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.deferreds.sleeping import sleep

#: Seconds before the end of a sleep in which a system without such timers stays awake.
AWAKE_SECONDS = 0.002
_NANOSECONDS = 1_000_000_000
_MONOTONIC, _NONBLOCKING_CLOSED_ON_EXEC, _ABSOLUTE = time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC, 1


class _TimerSpecification(ctypes.Structure):
    """``struct itimerspec``: the interval of repetition, and the first time; seconds and nanoseconds of each."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "first_s", "first_ns"))


@implementer(IReadDescriptor)
class PreciseSleep:
    """The sleeps of one coroutine, one at a time, in the reactor; ``close`` it in the end.

    Times are those of ``time.perf_counter``, which is the monotonic clock on Linux.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._sleeping: Deferred[None] | None = None
        self._library = ctypes.CDLL(None, use_errno=True)
        self._timer = -1
        if hasattr(self._library, "timerfd_create"):
            self._timer = self._library.timerfd_create(_MONOTONIC, _NONBLOCKING_CLOSED_ON_EXEC)
        if self._timer >= 0:
            reactor.addReader(self)

    def until(self, due: float) -> Deferred[None]:
        """Return a Deferred that fires at ``due``, or soon where that is over; early without such timers."""
        wait = due - time.perf_counter()
        if self._timer < 0 or wait <= 0:
            return sleep(self._reactor, max(0.0, wait - AWAKE_SECONDS))
        seconds, fraction = divmod(due, 1.0)
        first = _TimerSpecification(0, 0, int(seconds), int(fraction * _NANOSECONDS))
        if self._library.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(first), None):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._sleeping = Deferred()
        return self._sleeping

    def close(self) -> None:
        """Give the timer back; a sleep under way never ends."""
        if self._timer >= 0:
            self._reactor.removeReader(self)
            os.close(self._timer)
            self._timer = -1

    # IReadDescriptor

    def fileno(self) -> int:
        """See IFileDescriptor."""
        return self._timer

    def doRead(self) -> None:  # noqa: N802
        """Go on, as the time has come."""
        os.read(self._timer, 8)  # the number of times that it fired
        sleeping, self._sleeping = self._sleeping, None
        if sleeping is not None:
            sleeping.callback(None)

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """See IFileDescriptor: the reactor lets go of the timer."""

    def logPrefix(self) -> str:  # noqa: N802
        """See ILoggingContext."""
        return "PreciseSleep"
