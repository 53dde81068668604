"""A lock and a semaphore that thousands of callers may wait for.

Twisted's hand a token over inside ``release``. A holder that needs it for a moment only, and releases it at once, then
releases it inside the release of the one before: a few hundred of them exceed the depth of Python's stack, and those
behind them wait for ever. Here the first ``release`` hands the tokens on in a loop.
"""

from __future__ import annotations

from twisted.internet.defer import DeferredSemaphore


class QueueSemaphore(DeferredSemaphore):
    """A DeferredSemaphore of which each waiter is called from the same depth of the stack, in the order of coming."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self._handing_over = False
        #: Tokens that were released while they are handed over. Until then nobody can take them out of turn.
        self._returned = 0

    def release(self) -> None:
        """See DeferredSemaphore."""
        assert self.tokens + self._returned < self.limit, "released more often than acquired"
        self._returned += 1
        if self._handing_over:
            return
        self._handing_over = True
        try:
            while self._returned and self.waiting:
                self._returned -= 1
                self.waiting.pop(0).callback(self)  # type: ignore[arg-type]  # Self of the base class
        finally:
            self._handing_over = False
        self.tokens += self._returned
        self._returned = 0


class QueueLock(QueueSemaphore):
    """A lock, like DeferredLock."""

    def __init__(self) -> None:
        super().__init__(1)

    @property
    def locked(self) -> bool:
        """Return whether somebody holds the lock."""
        return not self.tokens
