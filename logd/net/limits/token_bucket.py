"""A token bucket: a rate that is kept on average, with some seconds' worth at once."""

from __future__ import annotations

from attrs import define, field

from logd.interfaces import Clock

#: Seconds' worth of the rate that may be used at once.
BURST_SECONDS = 1.0


@define(eq=False)
class TokenBucket:
    """Tokens come at ``rate`` a second, up to ``burst`` seconds' worth. Taking may leave a debt, paid by waiting."""

    _clock: Clock
    rate: int
    burst: float = BURST_SECONDS
    _tokens: float = field(init=False)
    _as_of: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tokens = self.rate * self.burst
        self._as_of = self._clock.seconds()

    def take(self, count: int) -> bool:
        """Take tokens, also more than there are; return whether that leaves a debt.

        The clock is read only when there are no tokens left: this is called for each answer. So what was taken last
        before a rest may be forgiven, and in any time the rate is exceeded by two bursts at most.
        """
        self._tokens -= count
        if self._tokens >= 0:
            return False
        self._fill()
        return self._tokens < 0

    def change_rate(self, rate: int) -> None:
        """Go on with another rate; a debt stays."""
        self._fill()
        self.rate = rate
        self._tokens = min(self._tokens, rate * self.burst)

    def debt_seconds(self, after: int = 0) -> float:
        """Return the time until the debt is paid, 0 without one, once ``after`` more tokens are taken."""
        self._fill()
        return max(after - self._tokens, 0.0) / self.rate

    @property
    def full(self) -> bool:
        """True if nothing was taken lately."""
        self._fill()
        return self._tokens >= self.rate * self.burst

    def _fill(self) -> None:
        now = self._clock.seconds()
        self._tokens = min(self._tokens + (now - self._as_of) * self.rate, self.rate * self.burst)
        self._as_of = now
