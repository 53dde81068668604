"""Long work in pieces: others are served in between."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock

#: Seconds of one reactor turn that work may take before others are served.
TURN_SECONDS = 0.01


class FairTurns:
    """The reactor turns of work that handles many items, as one request may name. Call it before each item::

    if turns.over:
        await turns.rest()
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late = clock.seconds() + TURN_SECONDS

    @property
    def over(self) -> bool:
        """Return whether this turn has taken long enough."""
        return self._clock.seconds() >= self._late

    def rest(self) -> Deferred[None]:
        """Return a Deferred that fires in the next turn of the reactor. Cancellable."""
        return sleep(self._clock, 0).addCallback(self._begin)

    def _begin(self, _: None) -> None:
        # Several coroutines may share the turns: the first that goes on begins a new one for all.
        if self.over:
            self._late = self._clock.seconds() + TURN_SECONDS
