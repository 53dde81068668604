"""A clock that is turned by hand, for simulations with many thousand timers.

``twisted.internet.task.Clock`` sorts all its calls at each new one; here that takes the logarithm of their number.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class HeapTimer:
    """One call that is to come."""

    def __init__(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def cancel(self) -> None:
        """It does not come."""
        self._call = None

    def active(self) -> bool:
        """Whether it is still to come."""
        return self._call is not None

    def fire(self) -> None:
        """Now."""
        call, self._call = self._call, None
        if call is not None:
            call(*self._arguments)


class HeapClock:
    """Time that passes in ``step`` alone. Calls at the same time come in the order in which they were asked for."""

    def __init__(self) -> None:
        self._now = 0.0
        self._coming: list[tuple[float, int, HeapTimer]] = []
        self._numbers = count()

    def seconds(self) -> float:
        """Seconds since it was made."""
        return self._now

    def callLater(  # noqa: N802
        self,
        delay: float,
        callable: Callable[..., object],  # noqa: A002
        *args: object,
    ) -> HeapTimer:
        """See logd.interfaces.Clock."""
        timer = HeapTimer(callable, args)
        heapq.heappush(self._coming, (self._now + delay, next(self._numbers), timer))
        return timer

    def step(self) -> bool:
        """Go to the next call and make it; say whether there was one."""
        while self._coming:
            time, _, timer = heapq.heappop(self._coming)
            if timer.active():
                self._now = max(self._now, time)
                timer.fire()
                return True
        return False
