"""Prometheus metrics of latencies, and of what access rules refused, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from logd.broker.broker import Broker


class LatencyMetrics(Collector):
    """Collects the metrics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs nothing."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        latencies = self._broker.counters.latencies
        requests = HistogramMetricFamily(
            "logd_request_seconds",
            "Time from a request's arrival to its answer; fetches that wait for messages count their wait.",
            labels=["protocol", "request"],
        )
        # The observing happens on another thread: copied in one step.
        for (protocol, request), histogram in list(latencies.requests.items()):
            requests.add_metric([protocol, request], histogram.cumulated(), histogram.sum)
        yield requests
        delivered = HistogramMetricFamily(
            "logd_delivery_seconds",
            "Time from a message to its delivery to a consumer that has read everything before.",
            labels=["topic"],
        )
        for topic, histogram in list(latencies.deliveries.items()):
            delivered.add_metric([topic], histogram.cumulated(), histogram.sum)
        yield delivered
        for name, meaning, histogram in (
            (
                "logd_visible_seconds",
                "Time from an append to its visibility: the flush, and the wait for it.",
                latencies.visible,
            ),
            ("logd_sync_seconds", "Time of one sync of the disk.", latencies.syncs),
        ):
            family = HistogramMetricFamily(name, meaning)
            family.add_metric([], histogram.cumulated(), histogram.sum)
            yield family
        refused = CounterMetricFamily(
            "logd_access_refused", "Requests, or parts of one, that access rules refused.", labels=["resource"]
        )
        for kind, count in self._broker.authorizer.refused.items():
            refused.add_metric([kind.value], count)
        yield refused
        logins = CounterMetricFamily("logd_logins", "Logins.", labels=["mechanism", "result"])
        for (mechanism, is_proved), count in list(self._broker.authentication.attempts.items()):
            logins.add_metric([mechanism, "proved" if is_proved else "failed"], count)
        yield logins
