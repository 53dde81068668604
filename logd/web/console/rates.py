"""Rates of topics and groups, from two samples each."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

#: Keys of which a sample is kept.
MOST_KEYS = 100_000
#: Seconds after which a sample is too old for a rate.
OLDEST_SECONDS = 120.0


@define(eq=False)
class Rates:
    """The rates at which numbers that only grow have grown, in units a second, by their keys."""

    _before: tuple[float, Mapping[str, int]] | None = field(default=None, init=False)
    _rates: dict[str, float] = field(factory=dict, init=False)

    def sample(self, now: float, values: Mapping[str, int]) -> None:
        """Take the numbers at a time in seconds."""
        if len(values) > MOST_KEYS:
            values = dict(list(values.items())[:MOST_KEYS])
        before, self._before = self._before, (now, values)
        self._rates = {}
        if before is None or not 0 < now - before[0] <= OLDEST_SECONDS:
            return
        seconds, old = now - before[0], before[1]
        self._rates = {key: max(value - old[key], 0) / seconds for key, value in values.items() if key in old}

    def get(self, key: str) -> float | None:
        """Return the rate of a key, None if it is not known."""
        return self._rates.get(key)
