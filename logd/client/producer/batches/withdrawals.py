"""Sends of one queue that are cancelled before they have left, to be taken out of its batches all at once."""

from __future__ import annotations

from collections.abc import Callable, Collection

from twisted.internet.defer import Deferred

from logd.client.producer.pending_send import PendingSend, Sent
from logd.interfaces import Clock

#: A send of several messages, or of one that had to wait; or the Deferred of one message.
Withdrawn = PendingSend | Deferred[Sent]


class Withdrawals:
    """The cancelled sends of this turn of the reactor; an instance is the canceller of the Deferreds.

    Tens of thousands may be cancelled together, and to take one out of a batch costs a look at all that are in it.
    """

    __slots__ = ("_clock", "_sends", "_take_out")

    def __init__(self, clock: Clock, take_out: Callable[[Collection[Withdrawn]], None]) -> None:
        self._clock = clock
        self._take_out = take_out
        self._sends: dict[Withdrawn, None] = {}

    def __call__(self, send: Withdrawn) -> None:
        """Take a send out at the end of this turn, or before the next batch leaves."""
        if not self._sends:
            self._clock.callLater(0, self.finish)
        self._sends[send] = None

    def finish(self) -> None:
        """Take out now what was cancelled."""
        if self._sends:
            sends, self._sends = self._sends, {}
            self._take_out(sends)
