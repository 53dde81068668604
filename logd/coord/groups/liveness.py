"""A consumer's own timer: without contact for two thirds of its session timeout, the consumer is out of touch.

The tree gives its partitions to others once the session timeout is over. A consumer that was cut off or paused cannot
be notified, so it stops by itself a third of the timeout before that.
"""

from __future__ import annotations

from collections.abc import Callable

from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.interfaces import Clock, Timer

#: The part of the session timeout after which nothing more is delivered.
PATIENCE = 2 / 3


class LivenessTimer:
    """Calls ``out_of_touch()`` once each time that the tree has been silent for too long."""

    def __init__(self, coordination: ICoordination, clock: Clock, out_of_touch: Callable[[], None]) -> None:
        self._coordination = coordination
        self._clock = clock
        self._out_of_touch = out_of_touch
        self._timer: Timer | None = None

    @property
    def held(self) -> bool:
        """Return whether the session is certainly alive, as far as this client can know."""
        state = self._coordination.state
        return state in (SessionState.CONNECTED, SessionState.SUSPENDED) and self._left() > 0.0

    def begin(self) -> None:
        """Start the timer."""
        if self._timer is None:
            self._arm()

    def end(self) -> None:
        """Stop the timer."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _left(self) -> float:
        coordination = self._coordination
        until: float = coordination.last_contact + PATIENCE * coordination.session_timeout
        return until - self._clock.seconds()

    def _arm(self) -> None:
        self._timer = self._clock.callLater(max(self._left(), 0.001), self._look)

    def _look(self) -> None:
        self._timer = None
        if self.held:
            self._arm()
        else:
            self._out_of_touch()
