"""Prometheus metrics of quotas, read at each scrape.

Only users that have a quota of their own are told apart, and of those the first MOST_USERS by name; all others together
are ``user="*"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from logd.broker.security.quotas import Quotas, QuotaUsage
from logd.net.limits.traffic_quotas import HeldConnections

#: Users that have labels of their own.
MOST_USERS = 100


class QuotaMetrics(Collector):
    """Collects the metrics of one broker."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs nothing."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        if not self._quotas.entries:
            return
        usages = self._quotas.labelled(MOST_USERS)
        limits = GaugeMetricFamily("logd_quota_limit", "The limits of users.", labels=["user", "limit"])
        for user in sorted(usages):
            if user in self._quotas.entries:
                for name, value in self._quotas.entries[user].limits().items():
                    limits.add_metric([user, name], value)
        yield limits
        counts: tuple[tuple[str, str, Callable[[QuotaUsage], float]], ...] = (
            ("logd_quota_bytes_in", "Bytes received from users that have a quota.", lambda u: u.incoming.total),
            ("logd_quota_bytes_out", "Bytes sent to users that have a quota.", lambda u: u.outgoing.total),
            ("logd_quota_refused", "Connections and topics refused by a quota.", lambda u: u.refused),
        )
        for name, meaning, value_of in counts:
            yield self._counted(usages, name, meaning, value_of)
        held = CounterMetricFamily(
            "logd_quota_held", "How often a connection was not read because of a quota.", labels=["user", "limit"]
        )
        seconds = CounterMetricFamily(
            "logd_quota_held_seconds", "The time for which connections were not read.", labels=["user", "limit"]
        )
        now = GaugeMetricFamily("logd_quota_held_connections", "Connections not read now.", labels=["user", "limit"])
        connections = GaugeMetricFamily("logd_quota_connections", "Open connections.", labels=["user"])
        requests = GaugeMetricFamily("logd_quota_requests", "Requests under way.", labels=["user"])
        for user, together in sorted(usages.items()):
            by_limit: dict[str, list[HeldConnections]] = {
                "bytes.in": [each.incoming.held for each in together],
                "bytes.out": [each.outgoing.held for each in together],
                "requests": [each.requests.held for each in together],
            }
            for limit, of_users in by_limit.items():
                held.add_metric([user, limit], sum(each.times for each in of_users))
                seconds.add_metric([user, limit], sum(each.seconds for each in of_users))
                now.add_metric([user, limit], sum(map(len, of_users)))
            connections.add_metric([user], sum(len(each.sessions) for each in together))
            requests.add_metric([user], sum(each.requests.under_way for each in together))
        yield from (held, seconds, now, connections, requests)

    def _counted(
        self,
        usages: dict[str, list[QuotaUsage]],
        name: str,
        meaning: str,
        value_of: Callable[[QuotaUsage], float],
    ) -> CounterMetricFamily:
        family = CounterMetricFamily(name, meaning, labels=["user"])
        for user, together in sorted(usages.items()):
            family.add_metric([user], sum(map(value_of, together)))
        return family
