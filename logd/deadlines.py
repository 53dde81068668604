"""Deadlines of answers: many deadlines, one timer."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from logd.interfaces import Clock, Timer

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """Calls ``late(key)`` for each key that is not forgotten in time.

    A timer for each request would cost a producer as much as making the request does, and a broker a tenth of what the
    request does. So the timer also stays where all keys are forgotten: a caller that awaits each answer would make one
    and cancel it each time.
    """

    __slots__ = ("_clock", "_deadlines", "_late", "_timer", "_timer_at")

    def __init__(self, clock: Clock, late: Callable[[Key], None]) -> None:
        self._clock = clock
        self._late = late
        self._deadlines: dict[Key, float] = {}
        self._timer: Timer | None = None
        self._timer_at = math.inf

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys that are neither late nor forgotten, in the order in which they were first watched."""
        return iter(self._deadlines)

    def __len__(self) -> int:
        return len(self._deadlines)

    def watch(self, key: Key, seconds: float) -> None:
        """Call ``late(key)`` unless ``key`` is forgotten within ``seconds``, which may be infinite."""
        deadline = self._clock.seconds() + seconds
        self._deadlines[key] = deadline
        if deadline < self._timer_at:
            self._arm(deadline)

    def deadline(self, key: Key) -> float:
        """Return the clock's time at which ``key`` is late. Raises KeyError for one that is not watched."""
        return self._deadlines[key]

    def forget(self, key: Key) -> bool:
        """Remove the deadline of ``key``; return whether it had one."""
        return self._deadlines.pop(key, None) is not None

    def stop(self) -> None:
        """Forget all keys, and cancel the timer."""
        self._deadlines.clear()
        self._disarm()

    def _disarm(self) -> None:
        timer, self._timer, self._timer_at = self._timer, None, math.inf
        if timer is not None:
            timer.cancel()

    def _arm(self, deadline: float) -> None:
        self._disarm()
        self._timer_at = deadline
        self._timer = self._clock.callLater(max(deadline - self._clock.seconds(), 0.0), self._look)

    def _look(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = self._clock.seconds()
        late = [key for key, deadline in self._deadlines.items() if deadline <= now]
        try:
            for key in late:
                if self._deadlines.pop(key, None) is not None:
                    self._late(key)
        finally:  # a bug in one answer must not leave the others without an end
            nearest = min(self._deadlines.values(), default=math.inf)
            if nearest < self._timer_at:
                self._arm(nearest)
