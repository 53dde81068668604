"""In-order delivery to one partition through refusals and lost connections: the next item to send, and the items to
send again.

The rule (docs/protocol.md, ProduceAck): items are sent in order, several at a time. Once one of them is refused, the
broker refuses every later one of that partition on that connection, until it receives one marked as a restart. So:

    healthy --refused--> draining: nothing is sent until everything in flight has its answer
    healthy, draining --lost--> everything in flight goes back to the front, in order; the next item is a restart
    draining --last answer--> refused items go back to the front, in order; the next item is a restart

An item that is refused for good leaves; the ones behind it stay in order. Delivery is at least once: an item whose
answer was lost is sent again. The first occurrences arrive in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class InFlightWindow(Generic[T]):
    """The send window of one partition; no I/O, no clock. Items are told apart by hash and equality."""

    __slots__ = ("_draining", "_in_flight", "_restart", "_waiting", "max_in_flight")

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self._waiting: deque[T] = deque()
        #: In the order sent; True once the item was refused and must be sent again.
        self._in_flight: dict[T, bool] = {}
        self._draining = False
        self._restart = False

    def __len__(self) -> int:
        """Return the number of items that are neither acknowledged nor dropped."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def draining(self) -> bool:
        """Return whether an item was refused or lost while other answers are still missing."""
        return self._draining

    @property
    def idle(self) -> bool:
        """Return whether nothing is in flight: the moment to change to another broker."""
        return not self._in_flight

    @property
    def waiting(self) -> tuple[T, ...]:
        """Return the items that are not in flight, in order."""
        return tuple(self._waiting)

    def put(self, item: T) -> None:
        """Add an item behind all others."""
        self._waiting.append(item)

    @property
    def has_waiting(self) -> bool:
        """Return whether there is an item that is not in flight."""
        return bool(self._waiting)

    @property
    def next(self) -> T:
        """Return the first of them. Raises IndexError if there is none."""
        return self._waiting[0]

    @property
    def can_send(self) -> bool:
        """Return whether the rule allows one more item in flight now."""
        return not self._draining and len(self._in_flight) < self.max_in_flight

    def take(self) -> tuple[T, bool] | None:
        """Move the next item into flight and return it with whether it is a restart, or None."""
        if not self._waiting or not self.can_send:
            return None
        item = self._waiting.popleft()
        self._in_flight[item] = False
        restart, self._restart = self._restart, False
        return item, restart

    def acknowledged(self, item: T) -> None:
        """Remove an item that the broker has stored."""
        del self._in_flight[item]
        self._settle()

    def refused(self, item: T) -> None:
        """Send an item again: the broker does not have it, or may not."""
        self._in_flight[item] = True
        self._draining = True
        self._settle()

    def refused_for_good(self, item: T) -> None:
        """Remove an item that the broker will never take; the items behind it stay in order."""
        del self._in_flight[item]
        self._draining = True
        self._settle()

    def divided(self, item: T, parts: Iterable[T]) -> None:
        """Replace an item that the broker will never take by its parts, which stand in its place."""
        in_flight, self._in_flight = self._in_flight, {}
        for each, refused in in_flight.items():
            if each is item:
                self._in_flight.update(dict.fromkeys(parts, True))
            else:
                self._in_flight[each] = refused
        self._draining = True
        self._settle()

    def exchange(self, other: Callable[[T], T]) -> None:
        """Put the results of ``other`` in the places of the items that are not in flight."""
        self._waiting = deque(map(other, self._waiting))

    def lost(self, item: T) -> None:
        """Send an item again whose connection was lost. Called for each item sent on that connection."""
        self.refused(item)

    def drop(self, item: T) -> bool:
        """Give up an item that is not in flight; return whether there was such an item."""
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
