"""The search for a partition's leader after it could not be reached: one at a time, each after a longer delay."""

from __future__ import annotations

from collections.abc import Callable

from logd.backoff import Backoff
from logd.interfaces import Clock, Timer


class LeaderSearch:
    """Calls ``search(error)`` after the backoff's delay. ``error`` is the reason for the first search asked for."""

    __slots__ = ("_backoff", "_clock", "_search", "_timer")

    def __init__(self, clock: Clock, backoff: Backoff, search: Callable[[Exception], None]) -> None:
        self._clock = clock
        self._backoff = backoff
        self._search = search
        self._timer: Timer | None = None

    @property
    def is_due(self) -> bool:
        """Return whether a search waits for its delay."""
        return self._timer is not None

    def begin(self, error: Exception) -> None:
        """Search after the next delay. Has no effect while a search waits for its delay."""
        if self._timer is None:
            self._timer = self._clock.callLater(self._backoff.next(), self._begin_now, error)

    def succeeded(self) -> None:
        """Start the next search after the first delay again, since the leader has answered."""
        self._backoff.reset()

    def stop(self) -> None:
        """Cancel the search that waits for its delay, if there is one."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _begin_now(self, error: Exception) -> None:
        self._timer = None
        self._search(error)
