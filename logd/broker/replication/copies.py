"""Waits until messages are appended in a number of copies, for producers with acks=2 or more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from logd.interfaces import IFlushListener
from logd.log.visibility.waiters import VisibilityWaiters, Wait


@define(eq=False)
class CopyWaiters:
    """The waits of one leader, by the number of copies. ``raised(traceback)`` is called for a listener that raises."""

    _raised: Callable[[str], None]
    _waiters: dict[int, VisibilityWaiters] = field(factory=dict, init=False)

    def wait(self, copies: int, position: int, ends: Iterable[int], listener: IFlushListener) -> Wait | None:
        """Call ``listener`` once ``copies`` of the ends have reached ``position``, and return the wait.

        If they have reached it already, call it at once and return None.

        ``ends`` are the present ends of all copies, the leader's own among them.
        """
        end = _least_of_greatest(copies, ends)
        if end >= position:
            listener.visible(end)
            return None
        waiters = self._waiters.get(copies)
        if waiters is None:
            waiters = self._waiters[copies] = VisibilityWaiters(self._raised)
        return waiters.add(position, listener)

    def moved(self, ends: Callable[[], Iterable[int]]) -> None:
        """Call the listeners that need not wait longer; an end has moved."""
        if self._waiters:
            found = list(ends())
            for copies, waiters in list(self._waiters.items()):
                waiters.reached(_least_of_greatest(copies, found))
                if not len(waiters):
                    self._waiters.pop(copies, None)

    def fail(self, error: BaseException) -> None:
        """Call all listeners with ``error``."""
        waiters, self._waiters = self._waiters, {}
        for each in waiters.values():
            each.fail(error)


def _least_of_greatest(count: int, ends: Iterable[int]) -> int:
    """Return the position that ``count`` of the ends have reached; -1 if there are fewer ends."""
    greatest = sorted(ends, reverse=True)
    return greatest[count - 1] if count <= len(greatest) else -1
