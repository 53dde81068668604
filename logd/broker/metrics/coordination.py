"""Prometheus metrics of a broker's coordination: its session, the live brokers, and its embedded tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from logd.broker.registration import BrokerRegistration
from logd.coord.records import SessionState

#: Attempts to read the figures of a tree that changes meanwhile; they are read on another thread.
_ATTEMPTS = 5
#: Figures that only grow, exported as counters.
_COUNTS = frozenset(
    {
        *("packets_received", "packets_sent", "bytes_received", "bytes_sent"),
        *("connections_accepted", "connections_refused", "protocol_violations"),
        *("sessions_opened", "sessions_expired", "watch_events", "fsyncs", "snapshots"),
    }
)

#: Returns the figures of the embedded tree by ZooKeeper's names; None without an embedded tree.
ServerFigures = Callable[[], dict[str, str | int | float] | None]


class CoordinationMetrics(Collector):
    """Collects the metrics of a broker's membership and of its embedded tree."""

    def __init__(self, membership: BrokerRegistration, server: ServerFigures) -> None:
        self._membership = membership
        self._server = server

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs no access to the tree."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        membership = self._membership
        state = GaugeMetricFamily(
            "logd_coordination_state", "1 for the state of the session with the coordination tree.", labels=["state"]
        )
        now = membership.state
        for each in SessionState:
            state.add_metric([each.value], int(each is now))
        yield state
        yield _gauge(
            "contact_age_seconds",
            "Seconds since the tree is known to have heard of this broker.",
            membership.contact_age,
        )
        yield _gauge("registered", "1 while this broker is registered in the tree.", int(membership.registered))
        yield _gauge("brokers", "Brokers that are live.", len(membership.live()))
        yield _gauge("conflicts", "Topics that are stored here and not served.", len(membership.conflicts))
        yield from self._of_server()

    def _of_server(self) -> Iterator[Metric]:
        for name, value in (self._figures() or {}).items():
            if isinstance(value, str):
                continue
            called, meaning = f"logd_coordination_server_{name}", f"ZooKeeper's zk_{name} of this broker's own tree."
            kind = CounterMetricFamily if name in _COUNTS else GaugeMetricFamily
            yield kind(called, meaning, value)

    def _figures(self) -> dict[str, str | int | float] | None:
        for _ in range(_ATTEMPTS):
            try:
                return self._server()
            except RuntimeError:  # the dictionary changed its size during the iteration
                continue
        return None


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"logd_coordination_{name}", meaning, value)
