"""The turns of one connection: the time that its requests take before others are served."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.deferreds.fair_turns import RestingWorks
from logd.interfaces import Clock


class ConnectionTurns:
    """The turns of the reactor that one connection has, shared with all others and with their long requests."""

    __slots__ = ("_began", "_clock", "_late", "_next", "_resting", "_resume")

    def __init__(self, clock: Clock, resting: RestingWorks, resume: Callable[[], None]) -> None:
        """``resume()`` is called when a turn begins behind one that was ended."""
        self._clock = clock
        self._resting = resting
        self._resume = resume
        #: The times at which this turn began, and is over.
        self._began = self._late = 0.0
        #: Fires when the next turn begins, None while none has ended.
        self._next: Deferred[None] | None = None

    @property
    def over(self) -> bool:
        """True once this turn has taken its time."""
        return self._clock.seconds() >= self._late

    def begin(self) -> None:
        """Begin a turn."""
        self._began = self._clock.seconds()
        self._late = self._began + self._resting.turn_seconds

    def pause(self) -> None:
        """Note that nothing more is done in this turn of the reactor."""
        self._resting.took(self._clock.seconds() - self._began)

    def end(self) -> None:
        """End this turn: ``resume`` is called in a later one of the reactor."""
        if self._next is None:
            self._next = self._resting.rest()
            self._next.addCallbacks(self._go_on, self._cancelled)

    def cancel(self) -> None:
        """Have no more turns, as the connection is lost."""
        if self._next is not None:
            self._next.cancel()

    def _go_on(self, _: None) -> None:
        self._next = None
        self._resume()

    def _cancelled(self, failure: Failure) -> None:
        failure.trap(CancelledError)
