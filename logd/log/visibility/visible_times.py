"""The times of messages that readers begin to see: how old the newest one is when a consumer is given it."""

from __future__ import annotations

from collections import deque

from attrs import define, field

#: Appends that wait to be visible and whose times are told apart; beyond that the last one stands for those after it.
MOST_UNSEEN = 1000


@define(eq=False)
class VisibleTimes:
    """The times of a log's appends, until they are visible."""

    #: The time of the last message that readers see, in ms since the epoch; -1 as long as none was appended.
    newest_ms: int = field(default=-1, init=False)
    #: The end of each append that they do not see yet, and the time of its newest message.
    _unseen: deque[tuple[int, int]] = field(factory=deque, init=False)

    def __len__(self) -> int:
        """Return the number of appends that are told apart."""
        return len(self._unseen)

    def appended(self, end: int, newest_ms: int) -> None:
        """Take note of an append's end and of the time of its newest message."""
        if len(self._unseen) >= MOST_UNSEEN:
            self._unseen.pop()
        self._unseen.append((end, newest_ms))

    def visible(self, end: int) -> None:
        """Take note that readers see the log up to ``end``."""
        unseen = self._unseen
        while unseen and unseen[0][0] <= end:
            self.newest_ms = unseen.popleft()[1]
