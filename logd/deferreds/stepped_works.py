"""Long works of small steps, of which few hold much memory at a time, and between which others have their turns."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from logd.deferreds.fair_turns import FairTurns, RestingWorks
from logd.deferreds.locking import QueueSemaphore
from logd.interfaces import Clock

T = TypeVar("T")


class SteppedWorks:
    """Works that share the turns of the reactor, and the places for those that hold much memory.

    A work is a generator that yields before each of its steps, which should take a millisecond or so: True before a
    step that holds much memory, or goes on with what is held; False where nothing is held.
    """

    def __init__(self, clock: Clock, places: int) -> None:
        """``places``: the works that may hold memory at the same time."""
        self._clock = clock
        self._resting = RestingWorks(clock)
        self._places = QueueSemaphore(places)

    async def run(self, steps: Generator[bool, None, T]) -> T:
        """Take all steps, and return what they return. A work of one step ends at once.

        Raises as the steps do. Cancellable between two of them.
        """
        began = self._clock.seconds()
        turns = FairTurns(self._clock, self._resting)
        has_place = rested = False
        try:
            while True:
                try:
                    holds = next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]  # StopIteration has no type of its value
                if turns.over:
                    if has_place and not holds:
                        self._places.release()
                        has_place = False
                    rested = True
                    await turns.rest()
                if holds and not has_place:
                    await self._places.acquire()
                    has_place = True
                    if turns.over:  # it was waited for, and given on in the turn of another work
                        await turns.rest()
        finally:
            if has_place:
                self._places.release()
            if not rested:
                self._resting.took(self._clock.seconds() - began)
