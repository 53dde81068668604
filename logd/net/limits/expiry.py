"""Deadlines of many items with one common duration, kept in order under a single timer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from logd.interfaces import Clock, Timer

Item = TypeVar("Item")


class Expiry(Generic[Item]):
    """Calls ``late(item)`` once for each item that began and did not end within ``seconds``."""

    def __init__(self, clock: Clock, seconds: float, late: Callable[[Item], None]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._late = late
        #: The deadline of each item, in order of ``begin``, which is the order of the deadlines.
        self._deadlines: OrderedDict[Item, float] = OrderedDict()
        self._timer: Timer | None = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def begin(self, item: Item) -> None:
        """Start the item's time, or restart it."""
        self._deadlines[item] = self._clock.seconds() + self._seconds
        self._deadlines.move_to_end(item)
        # The timer keeps running when its item ends: a timer for each item would cost more than the item.
        if self._timer is None:
            self._arm(self._seconds)

    def end(self, item: Item) -> None:
        """End the item's time. Does nothing for an item that did not begin."""
        self._deadlines.pop(item, None)

    def leave(self, item: Item) -> None:
        """End the time of an item that will not return. With the last item the timer is cancelled."""
        self.end(item)
        if not self._deadlines:
            self._cancel()

    def stop(self) -> None:
        """Cancel the timer for good."""
        self._stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        if not self._stopped:
            self._timer = self._clock.callLater(max(seconds, 0.0), self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        late = []
        for item, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(item)
        for item in late:
            del self._deadlines[item]
        for item in late:
            self._late(item)
        if self._deadlines and self._timer is None:
            self._arm(next(iter(self._deadlines.values())) - now)
