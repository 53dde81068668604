"""Prometheus metrics of partitions: written as text in short turns, since there may be ten thousand partitions.

prometheus_client makes an object for each sample and text of each object. For 10,000 partitions that takes more than
half a second, in which a thread keeps the interpreter's lock from the reactor again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from logd.log.partition import PartitionLog

#: Partitions that are written in one turn of the reactor: about two milliseconds.
TURN_LOGS = 500


class _Gauge(NamedTuple):
    name: str
    meaning: str
    value: Callable[[PartitionLog], int]


_GAUGES = (
    _Gauge("logd_log_start_offset", "Id of the first message.", lambda log: log.first),
    _Gauge("logd_log_end_offset", "Id that the next message gets.", lambda log: log.end),
    _Gauge("logd_log_visible_offset", "End of the visible messages.", lambda log: log.visible_end),
    _Gauge(
        "logd_partition_offline", "1 for a partition that cannot be served.", lambda log: int(log.offline is not None)
    ),
)


class PartitionMetrics(Collector):
    """The metrics of the logs that ``logs()`` returns, as objects for any registry, or as text for a page."""

    def __init__(self, logs: Callable[[], Sequence[PartitionLog]]) -> None:
        self._logs = logs

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs no access to the logs."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        logs = self._logs()
        for gauge in _GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.meaning, labels=["topic", "partition"])
            for log in logs:
                family.add_metric([log.topic, str(log.partition)], gauge.value(log))
            yield family

    def texts(self) -> Iterator[str]:
        """Yield the same in the format of Prometheus and OpenMetrics, in parts that each take a short time."""
        logs = self._logs()
        for gauge in _GAUGES:
            yield f"# HELP {gauge.name} {gauge.meaning}\n# TYPE {gauge.name} gauge\n"
            name, value = gauge.name, gauge.value
            for first in range(0, len(logs), 4 * TURN_LOGS):  # one of the four lines of each
                # A topic's name has no character that would have to be escaped.
                yield "".join(
                    f'{name}{{partition="{log.partition}",topic="{log.topic}"}} {value(log)}.0\n'
                    for log in logs[first : first + 4 * TURN_LOGS]
                )
