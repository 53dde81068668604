"""Long work in pieces: others are served in between."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.interfaces import Clock, Timer

#: Seconds of one reactor turn that work may take before others are served.
TURN_SECONDS = 0.01
#: The turn that counted work takes parts of: also where a test makes the turns of long work as short as can be.
_COUNTED_SECONDS = TURN_SECONDS
#: Work that took less of it is not counted.
_LITTLE_SECONDS = _COUNTED_SECONDS / 10


class RestingWorks:
    """The works that rest. They go on in order, in each turn of the reactor as many as its time allows.

    A client may ask for a thousand long works at once: if all of them went on in each turn, others would wait for as
    many shares of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resting: dict[Deferred[None], None] = {}
        self._next_turn: Timer | None = None
        #: True while resting works go on.
        self._going_on = False
        #: The seconds that were taken of this turn by work that did not rest, and the call that ends it.
        self._taken = 0.0
        self._turn_end: Timer | None = None

    def __len__(self) -> int:
        """Return the number of works that rest."""
        return len(self._resting)

    @property
    def turn_seconds(self) -> float:
        """The seconds that work may take which begins, or goes on, now.

        Work that begins while others rest, or where others have taken their time, has a share of a turn only: a hundred
        clients may begin theirs in one.
        """
        if self._going_on:
            return TURN_SECONDS
        return TURN_SECONDS / (1 + len(self._resting) + self._taken / _COUNTED_SECONDS)

    def took(self, seconds: float) -> None:
        """Note that work took so long, whether it rests now or not."""
        if seconds < _LITTLE_SECONDS or self._going_on:
            return
        self._taken += seconds
        if self._turn_end is None:
            self._turn_end = self._clock.callLater(0, self._turn_ended)

    def _turn_ended(self) -> None:
        self._taken, self._turn_end = 0.0, None

    def rest(self) -> Deferred[None]:
        """Return a Deferred that fires in a later turn of the reactor, after those that rest already. Cancellable."""
        resting: Deferred[None] = Deferred(self._cancelled)
        self._resting[resting] = None
        if self._next_turn is None:
            self._next_turn = self._clock.callLater(0, self._go_on)
        return resting

    def _go_on(self) -> None:
        """Let works go on for the time of one turn."""
        late = self._clock.seconds() + TURN_SECONDS
        self._going_on = True
        # Those that rest again while the others go on have their time in a later turn.
        for resting in tuple(self._resting):
            if resting in self._resting:  # an earlier one may have cancelled it
                del self._resting[resting]
                resting.callback(None)
                if self._clock.seconds() >= late:
                    break
        self._going_on = False
        self._next_turn = self._clock.callLater(0, self._go_on) if self._resting else None

    def _cancelled(self, resting: Deferred[None]) -> None:
        self._resting.pop(resting, None)
        if not self._resting and self._next_turn is not None and self._next_turn.active():
            self._next_turn.cancel()
            self._next_turn = None


class FairTurns:
    """The reactor turns of work that handles many items, as one request may name. Call it before each item::

    if turns.over:
        await turns.rest()
    """

    def __init__(self, clock: Clock, resting: RestingWorks) -> None:
        """``resting``: the works with which this one shares the turns."""
        self._clock = clock
        self._resting = resting
        self._late = clock.seconds() + resting.turn_seconds

    @property
    def over(self) -> bool:
        """Return whether this turn has taken long enough."""
        return self._clock.seconds() >= self._late

    def rest(self) -> Deferred[None]:
        """Return a Deferred that fires in a later turn of the reactor. Cancellable."""
        return self._resting.rest().addCallback(self._begin)

    def _begin(self, _: None) -> None:
        # Several coroutines may share the turns: the first that goes on begins a new one for all.
        if self.over:
            self._late = self._clock.seconds() + self._resting.turn_seconds
