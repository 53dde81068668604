"""The data of the charts: samples of this broker's figures in rings of fixed size."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from attrs import define, field

#: Seconds between two samples, and the number that is kept: six hours.
SAMPLE_SECONDS = 5.0
MOST_SAMPLES = 4320
#: The figures that are kept.
SERIES = ("bytes_in", "bytes_out", "messages_in", "requests", "connections", "unflushed_bytes")
#: Of these, what counts from the start on: shown as a rate.
COUNTED = ("bytes_in", "bytes_out", "messages_in", "requests")


@define(eq=False)
class History:
    """The samples of the last hours, some 250 KB whatever happens."""

    _times: array[float] = field(factory=lambda: array("d", bytes(8 * MOST_SAMPLES)), init=False)
    _series: dict[str, array[float]] = field(
        factory=lambda: {name: array("d", bytes(8 * MOST_SAMPLES)) for name in SERIES}, init=False
    )
    _count: int = field(default=0, init=False)
    _last: tuple[float, Mapping[str, float]] | None = field(default=None, init=False)

    def sample(self, now: float, figures: Mapping[str, float]) -> None:
        """Take the figures at a time in seconds. The first sample only begins the rates."""
        last, self._last = self._last, (now, dict(figures))
        if last is None or now <= last[0]:
            return
        seconds = now - last[0]
        place = self._count % MOST_SAMPLES
        self._times[place] = now
        for name, values in self._series.items():
            value = figures[name]
            values[place] = max(value - last[1][name], 0.0) / seconds if name in COUNTED else value
        self._count += 1

    def latest(self) -> dict[str, float] | None:
        """Return the last sample, None before there is one."""
        if not self._count:
            return None
        place = (self._count - 1) % MOST_SAMPLES
        return {name: values[place] for name, values in self._series.items()}

    def since(self, time: float) -> dict[str, Any]:
        """Return the samples after a time, oldest first: ``times``, and the values of each series."""
        kept = min(self._count, MOST_SAMPLES)
        places = [
            place
            for number in range(self._count - kept, self._count)
            if self._times[place := number % MOST_SAMPLES] > time
        ]
        return {
            "times": [self._times[place] for place in places],
            **{name: [values[place] for place in places] for name, values in self._series.items()},
        }
