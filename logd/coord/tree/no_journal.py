"""A journal that stores nothing, for trees that end with their process."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import IJournal


@implementer(IJournal)
class NoJournal:
    """Reports every change as flushed at once."""

    def start(self, flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """See IJournal."""
        self._flushed = flushed

    def append(self, change: Change) -> None:
        """See IJournal."""
        self._flushed(change.zxid)
