"""Retries of an operation that fails: growing delays, within a limit of time."""

from __future__ import annotations

from attrs import define

from logd.backoff import Backoff


@define
class RetryBudget:
    """The attempts at one operation. No clock: the caller passes the time, and sleeps."""

    backoff: Backoff
    #: Seconds from the first failure during which further attempts are made.
    patience: float
    _since: float | None = None

    def reset(self) -> None:
        """Begin anew after a successful attempt."""
        self.backoff.reset()
        self._since = None

    def delay(self, error: Exception, now: float) -> float:
        """Return the seconds to wait after an attempt failed at ``now``. Raises ``error`` when patience is over."""
        if self._since is None:
            self._since = now
        delay = self.backoff.next()
        if now + delay - self._since > self.patience:
            raise error
        return delay
