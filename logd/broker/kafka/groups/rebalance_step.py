"""The present step of a group on its way to the next generation, and the timer that ends it."""

from __future__ import annotations

from collections.abc import Callable

from logd.interfaces import Clock, Timer


class RebalanceStep:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        #: True during the delay of a new group.
        self.is_initial = False
        #: True if the delay is to begin again, as a member has joined.
        self.is_longer = False
        #: True while the generation's number is being written.
        self.is_writing = False

    def begin(self, seconds: float, over: Callable[[], None]) -> None:
        """Call ``over()`` after that time."""
        self.end()
        self._timer = self._clock.callLater(seconds, self._over, over)

    def begin_initially(self, delay: float, longest: float, over: Callable[[], None]) -> None:
        """Call ``over()`` after ``delay`` seconds, again if members have joined, and after ``longest`` in any case."""
        self.end()
        self.is_initial, self.is_longer = True, False
        delay = min(delay, longest)
        self._timer = self._clock.callLater(delay, self._initial_over, delay, longest - delay, over)

    def end(self) -> None:
        """End the step."""
        self.is_initial = False
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _initial_over(self, delay: float, left: float, over: Callable[[], None]) -> None:
        self._timer = None
        if self.is_longer and left > 0:
            self.begin_initially(delay, left, over)
        else:
            self._over(over)

    def _over(self, over: Callable[[], None]) -> None:
        self._timer = None
        self.is_initial = False
        over()
