"""In-order delivery to one partition through refusals and lost connections: which item may be sent next, and which
again.

The rule (docs/protocol.md, ProduceAck): items are sent in order, several at a time. Once one of them is refused the
broker refuses every later one of that partition on that connection, until it sees one that is marked as a restart.
So:

    healthy --refused--> draining: nothing is sent until everything in flight has its answer
    healthy, draining --lost--> all that is in flight goes back to the front, in order; the next one is a restart
    draining --last answer--> what was refused goes back to the front, in order; the next one is a restart

An item that is refused for good leaves; the ones behind it stay in order. What an application sees is at-least-once:
an item whose answer was lost is sent again. The first occurrences arrive in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class InFlightWindow(Generic[T]):
    """The state of one partition's queue; no I/O, no clock. Items are told apart by identity of hash and equality."""

    __slots__ = ("_draining", "_in_flight", "_restart", "_waiting", "max_in_flight")

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self._waiting: deque[T] = deque()
        #: In the order sent; True once the item was refused and has to be sent again.
        self._in_flight: dict[T, bool] = {}
        self._draining = False
        self._restart = False

    def __len__(self) -> int:
        """How many items are neither acknowledged nor dropped."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def draining(self) -> bool:
        """Whether something was refused or lost and answers are still missing."""
        return self._draining

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight: the moment to change to another broker."""
        return not self._in_flight

    @property
    def waiting(self) -> tuple[T, ...]:
        """The items that are not in flight, in order."""
        return tuple(self._waiting)

    def put(self, item: T) -> None:
        """Add an item behind all others."""
        self._waiting.append(item)

    @property
    def has_waiting(self) -> bool:
        """Whether there is an item that is not in flight."""
        return bool(self._waiting)

    @property
    def can_send(self) -> bool:
        """Whether the rule lets one more item go out now, if there is one."""
        return not self._draining and len(self._in_flight) < self.max_in_flight

    def take(self) -> tuple[T, bool] | None:
        """Return the next item to send, from now on in flight, and whether it is a restart; or None."""
        if not self._waiting or not self.can_send:
            return None
        item = self._waiting.popleft()
        self._in_flight[item] = False
        restart, self._restart = self._restart, False
        return item, restart

    def acknowledged(self, item: T) -> None:
        """The broker has it."""
        del self._in_flight[item]
        self._settle()

    def refused(self, item: T) -> None:
        """The broker does not have it, or may not, and it is to be sent again."""
        self._in_flight[item] = True
        self._draining = True
        self._settle()

    def refused_for_good(self, item: T) -> None:
        """The broker will never take it; the ones behind it go on without it."""
        del self._in_flight[item]
        self._draining = True
        self._settle()

    def divided(self, item: T, parts: Iterable[T]) -> None:
        """The broker will never take it, but these parts of it, which stand in its place."""
        in_flight, self._in_flight = self._in_flight, {}
        for each, refused in in_flight.items():
            if each is item:
                self._in_flight.update(dict.fromkeys(parts, True))
            else:
                self._in_flight[each] = refused
        self._draining = True
        self._settle()

    def lost(self, item: T) -> None:
        """No answer will come for this item: its connection is gone. To be called for each that was sent on it."""
        self.refused(item)

    def drop(self, item: T) -> bool:
        """Give up an item that is not in flight; say whether it was there."""
        try:
            self._waiting.remove(item)
        except ValueError:
            return False
        return True

    def _settle(self) -> None:
        if self._draining and all(self._in_flight.values()):
            self._waiting.extendleft(reversed(self._in_flight))
            self._in_flight.clear()
            self._draining = False
            self._restart = True
