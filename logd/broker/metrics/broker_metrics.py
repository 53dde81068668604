"""Prometheus metrics of the broker, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from logd import __version__
from logd.protocol.implementation import IMPLEMENTATION, REASON

if TYPE_CHECKING:
    from logd.broker.broker import Broker

_COUNTS = {
    "connections_total": "Connections accepted.",
    "connections_refused": "Connections refused because there were too many.",
    "requests": "Requests of all kinds.",
    "fetch_requests": "Fetches, each of a MultiFetch counted.",
    "fetches_cut_short": "Fetches that could not wait because too many partitions were waiting.",
    "messages_in": "Messages appended; a compressed wrapper counts as one.",
    "bytes_in": "Bytes appended.",
    "bytes_out": "Bytes of message sets given to consumers.",
}


class BrokerMetrics(Collector):
    """Collects the metrics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering needs no access to the logs."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its current value."""
        broker = self._broker
        yield InfoMetricFamily(
            "logd",
            "Version, the loops over messages, and why these.",
            {"version": __version__, "loops": IMPLEMENTATION, "loops_reason": REASON},
        )
        for name, meaning in _COUNTS.items():
            yield CounterMetricFamily(f"logd_{name.removesuffix('_total')}", meaning, getattr(broker.counters, name))
        refused = CounterMetricFamily("logd_sets_refused", "Message sets that were not appended.", labels=["error"])
        # The counting happens on another thread: copied in one step.
        for name, count in list(broker.counters.refused_by_error.items()):
            refused.add_metric([name], count)
        yield refused
        yield GaugeMetricFamily("logd_connections", "Open connections.", len(broker.sessions))
        foreign = CounterMetricFamily(
            "logd_foreign_calls", "Connections of clients that do not speak the port's protocol.", labels=["client"]
        )
        for name, count in list(broker.counters.foreign_calls.items()):
            foreign.add_metric([name], count)
        yield foreign
        authentications = CounterMetricFamily(
            "logd_authentications", "Attempts to authenticate.", labels=["mechanism", "outcome"]
        )
        for (mechanism, succeeded), count in list(broker.authentication.attempts.items()):
            authentications.add_metric([mechanism, "success" if succeeded else "failure"], count)
        yield authentications
        if broker.addresses.own_kafka:
            yield from _of_kafka(broker)
        yield GaugeMetricFamily(
            "logd_fetch_session_partitions",
            "Partitions that consumers watch in fetch sessions.",
            broker.counters.session_parts,
        )
        yield GaugeMetricFamily(
            "logd_fetch_waiting_partitions",
            "Partitions of fetches that wait, those in fetch sessions not counted.",
            broker.counters.waiting_parts,
        )
        yield GaugeMetricFamily("logd_unflushed_bytes", "Bytes that wait for the disk.", broker.store.unflushed_bytes)
        yield GaugeMetricFamily("logd_producers_paused", "1 while producers are paused.", int(broker.gate.shut))
        yield from _of_replication(broker)
        yield from _of_healing(broker)


def _of_replication(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of replicas."""
    figures = broker.replication.figures()
    yield GaugeMetricFamily("logd_replicas", "Replicas of replicated partitions on this broker.", figures.replicas)
    yield GaugeMetricFamily("logd_replicas_led", "Replicated partitions that this broker leads.", figures.led)
    yield GaugeMetricFamily(
        "logd_replicas_under_replicated",
        "Partitions led here whose replicas are not all in sync.",
        figures.under_replicated,
    )
    yield GaugeMetricFamily(
        "logd_replicas_below_minimum",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas.",
        figures.below_minimum,
    )
    yield GaugeMetricFamily(
        "logd_replicas_leaderless", "Partitions stored here that no broker leads.", figures.leaderless
    )
    yield GaugeMetricFamily(
        "logd_controller", "1 while this broker chooses the leaders.", int(broker.controller.epoch is not None)
    )


def _of_healing(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of the verification of stored messages, and of the healing of replicas."""
    verifier, counts = broker.healing.verifier, broker.healing.counts
    yield CounterMetricFamily(
        "logd_verified_bytes", "Stored bytes whose checksums were verified in the background.", verifier.bytes_verified
    )
    yield CounterMetricFamily("logd_verifications", "Verifications of all logs that have ended.", verifier.passes)
    yield GaugeMetricFamily(
        "logd_verification_progress", "The share of the present verification that is done.", verifier.progress
    )
    yield CounterMetricFamily(
        "logd_damage_found", "Segments in which the verification has found damage.", verifier.damaged.found
    )
    yield GaugeMetricFamily("logd_damaged_segments", "Segments that are damaged now.", len(verifier.damaged))
    yield CounterMetricFamily("logd_healed_segments", "Damaged segments that were healed.", counts.healed)
    yield CounterMetricFamily(
        "logd_healed_bytes", "Bytes that were taken from other replicas to heal segments.", counts.healed_bytes
    )
    yield CounterMetricFamily(
        "logd_healing_failures", "Attempts to heal a segment for which no replica had the bytes.", counts.failures
    )


def _of_kafka(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of the listeners for clients of today's Kafka."""
    counters = broker.counters.kafka
    opened = sum(session.protocol == "kafka" for session in broker.sessions)
    yield GaugeMetricFamily("logd_kafka_connections", "Open connections of clients of today's Kafka.", opened)
    yield CounterMetricFamily(
        "logd_kafka_connections_accepted", "Accepted connections of clients of today's Kafka.", counters.connections
    )
    requests = CounterMetricFamily("logd_kafka_requests", "Requests of clients of today's Kafka.", labels=["api"])
    for api, count in counters.requests.items():
        requests.add_metric([api], count)
    errors = CounterMetricFamily(
        "logd_kafka_errors", "Errors that answered parts of Produce and Fetch, by Kafka's code.", labels=["api", "code"]
    )
    for (api, code), count in counters.errors.items():
        errors.add_metric([api, str(code)], count)
    software = CounterMetricFamily(
        "logd_kafka_clients", "Connections by the program and version that the client named.", labels=["software"]
    )
    for name, count in counters.software.items():
        software.add_metric([name], count)
    yield from (requests, errors, software)
