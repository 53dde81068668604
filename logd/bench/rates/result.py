"""The result of one round, and the summary of several: medians, spread, and the meaning of the ratio in words."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from attrs import asdict, frozen

from logd.bench.rates.process_usage import Usage
from logd.bench.rates.workload import Workload

#: The limit may vary by this factor within a run before the summary warns of it.
STEADY = 1.3
_LIMITS = {
    "produce": "from a socket into a file without looking at them and without a flush",
    "consume": "by sendfile from a cached file to a process that reads",
}


@frozen
class Moved:
    """The work of one round: seconds, and messages and bytes of log that were written or read."""

    seconds: float
    messages: int
    log_bytes: int


@frozen
class Result:
    """One round: the workload, the work done, the machine's limit in bytes a second, and the usage of both sides.

    ``broker`` is None for a broker that the bench has not started.
    """

    bench: str
    workload: Workload
    moved: Moved
    limit: float
    client: Usage
    broker: Usage | None

    def to_json(self) -> dict[str, object]:
        """Return every figure by its name, the workload's included. A megabyte is a million bytes."""
        moved, broker = self.moved, self.broker
        each_bytes = moved.log_bytes / moved.messages
        rate = moved.messages / moved.seconds
        return {
            "bench": self.bench,
            **asdict(self.workload),
            "messages": moved.messages,
            "seconds": round(moved.seconds, 3),
            "messages_per_second": round(rate),
            "megabytes_per_second": round(rate * each_bytes / 1e6, 1),
            "limit_megabytes_per_second": round(self.limit / 1e6, 1),
            "limit_messages_per_second": round(self.limit / each_bytes),
            "ratio_to_limit": round(rate * each_bytes / self.limit, 3),
            "log_bytes_per_message": round(each_bytes, 1),
            "client_processor_seconds": self.client.processor_seconds,
            "client_peak_megabytes": round(self.client.peak_bytes / 1e6, 1),
            "broker_processor_seconds": None if broker is None else broker.processor_seconds,
            "broker_peak_megabytes": None if broker is None else round(broker.peak_bytes / 1e6, 1),
        }


def summarise(rounds: Sequence[Mapping[str, object]], key: str) -> dict[str, object]:
    """Return the medians of figures, under ``spread`` their least and greatest, under ``rounds`` the values of ``key``.

    Other fields, and figures that no round has, are those of the first round.
    """
    summary: dict[str, object] = dict(rounds[0])
    spread: dict[str, list[float]] = {}
    for name, first in rounds[0].items():
        values = [each for row in rounds if isinstance(each := row[name], int | float) and not isinstance(each, bool)]
        if len(values) == len(rounds) and isinstance(first, int | float):
            middle = statistics.median(values)
            summary[name] = int(middle) if middle == int(middle) and isinstance(first, int) else round(middle, 3)
            if min(values) != max(values):
                spread[name] = [min(values), max(values)]
    return {**summary, "spread": spread, "rounds": [row[key] for row in rounds]}


def meaning(summary: Mapping[str, object]) -> str:
    """Return a sentence on the meaning of the ratio in a summary of produce or consume, and on how reliable it is."""
    ratio, limit = _number(summary["ratio_to_limit"]), _number(summary["limit_megabytes_per_second"])
    what = str(summary["bench"]).split()[0]
    spread = summary["spread"]
    assert isinstance(spread, Mapping)
    low, high = spread.get("limit_megabytes_per_second", (limit, limit))
    text = (
        f"Ratio {ratio:g}: in the time in which this machine moves 100 bytes {_LIMITS[what]}, logd moved "
        f"{ratio * 100:.3g}. That limit was measured between the rounds."
    )
    if low and high / low > STEADY:
        text += (
            f" It varied between {low:,.0f} and {high:,.0f} MB/s, so other work, or the machine itself, disturbed the "
            "run: compare rates of this run with each other, and the ratio only roughly with other runs."
        )
    return text


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
