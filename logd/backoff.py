"""Delays before retries: exponential, capped, and with jitter so that clients do not act in step."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define


@define
class Backoff:
    """The delays of one operation that keeps failing.

    The n-th delay is between half and all of ``first * 2**n`` seconds, at most ``limit``. ``random`` returns a float
    in [0, 1).
    """

    first: float
    limit: float
    random: Callable[[], float]
    failures: int = 0

    def next(self) -> float:
        """Count one more failure and return the seconds to wait."""
        delay = min(self.limit, self.first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return delay * (0.5 + 0.5 * self.random())

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self.failures = 0
