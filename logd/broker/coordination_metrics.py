"""What a broker counts of its coordination, for Prometheus: its session, the others, and a tree of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from logd.broker.registration import BrokerRegistration
from logd.coord.records import SessionState

#: How often the tree's figures are read again when the tree changes meanwhile: they are read on another thread.
_ATTEMPTS = 5
#: Those that only ever grow.
_COUNTS = frozenset(
    {
        *("packets_received", "packets_sent", "bytes_received", "bytes_sent"),
        *("connections_accepted", "connections_refused", "protocol_violations"),
        *("sessions_opened", "sessions_expired", "watch_events", "fsyncs", "snapshots"),
    }
)

#: The figures of a tree of our own, by ZooKeeper's names; None without one.
ServerFigures = Callable[[], dict[str, str | int | float] | None]


class CoordinationMetrics(Collector):
    """Collects from a broker's membership, and from its embedded server."""

    def __init__(self, membership: BrokerRegistration, server: ServerFigures) -> None:
        self._membership = membership
        self._server = server

    def describe(self) -> Iterator[Metric]:
        """Names need no look at the tree."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric as it is now."""
        membership = self._membership
        state = GaugeMetricFamily(
            "logd_coordination_state", "1 for the state of the session with the coordination tree.", labels=["state"]
        )
        now = membership.state
        for each in SessionState:
            state.add_metric([each.value], int(each is now))
        yield state
        yield _gauge(
            "contact_age_seconds", "Since the tree was last known to have heard of this broker.", membership.contact_age
        )
        yield _gauge("registered", "1 while this broker is registered.", int(membership.registered))
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
            except RuntimeError:  # a dictionary changed its size while another thread went through it
                continue
        return None


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"logd_coordination_{name}", meaning, value)
