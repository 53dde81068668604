"""Prometheus metrics of a mirror, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from logd.mirror.mirror import Mirror

_LABELS = ["topic", "partition"]


class MirrorMetrics(Collector):
    """Collects the metrics of one mirror; none while there is no mirror yet."""

    def __init__(self, mirror: Callable[[], Mirror | None]) -> None:
        self._mirror = mirror

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs no mirror."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        mirror = self._mirror()
        if mirror is None:
            return
        messages = CounterMetricFamily("logd_mirror_messages", "Messages stored on the target.", labels=_LABELS)
        size = CounterMetricFamily("logd_mirror_bytes", "Bytes of the source's log that are stored.", labels=_LABELS)
        gaps = CounterMetricFamily("logd_mirror_gaps", "Gaps of the source's log, left out.", labels=_LABELS)
        for where, progress in sorted(mirror.progress.items()):
            place = [where.topic, str(where.partition)]
            messages.add_metric(place, progress.messages)
            size.add_metric(place, progress.bytes)
            gaps.add_metric(place, progress.gaps)
        yield from (messages, size, gaps)
        behind = GaugeMetricFamily("logd_mirror_lag_bytes", "Bytes not stored on the target.", labels=_LABELS)
        several = GaugeMetricFamily("logd_mirror_lag_messages", "The same in messages, estimated.", labels=_LABELS)
        late = GaugeMetricFamily("logd_mirror_lag_seconds", "Seconds for which these have waited.", labels=_LABELS)
        stalled = GaugeMetricFamily("logd_mirror_stalled", "1 where nothing can be stored now.", labels=_LABELS)
        for lag in mirror.lags():
            place = [lag.where.topic, str(lag.where.partition)]
            behind.add_metric(place, lag.bytes)
            if lag.messages is not None:
                several.add_metric(place, lag.messages)
            late.add_metric(place, lag.seconds)
            stalled.add_metric(place, int(bool(lag.stalled)))
        yield from (behind, several, late, stalled)
        yield GaugeMetricFamily("logd_mirror_refused_topics", "Topics that are not mirrored.", len(mirror.refused))
