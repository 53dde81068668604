"""The audit of what clients of today's Kafka produce: such producers count nothing themselves, so the broker does.

The counts go to topic ``_audit`` as those of audited producers do, over connections of the broker's own to the brokers
that lead the topic's partitions.
"""

from __future__ import annotations

from socket import gethostname
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed

from logd.audit.foreign_producers import ForeignProducers
from logd.broker.service import BrokerService
from logd.client.audit.event_sender import EventSender
from logd.client.audit.publisher import AuditPublisher, new_reporter
from logd.client.audit.time_of_day import time_of_day
from logd.client.cluster.cluster import Cluster
from logd.config import BrokerSettings

#: Seconds of a stop in which the last counts are published.
FINISH_SECONDS = 2.0


class KafkaAudit(Service):
    """Counts and publishes while the broker runs; start it after the broker."""

    def __init__(self, reactor: Any, broker: BrokerService, settings: BrokerSettings) -> None:
        self._reactor = reactor
        self._service = broker
        self._settings = settings
        self._counts = ForeignProducers.of(new_reporter(gethostname()), "", settings.kafka.kafka_audit_window_ms)
        self._publisher: AuditPublisher | None = None
        self._cluster: Cluster | None = None

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Count from now on."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        broker = self._service.broker
        assert broker is not None  # it has started, or twistd ends
        connect = None
        if self._settings.listen.startswith("ssl:"):
            from logd.own_connections import OwnConnections

            factory = self._service.native_factory()
            connect = OwnConnections(self._reactor, self._settings, broker.advertised, factory).connect
        self._cluster = cluster = Cluster(
            self._reactor, [broker.advertised], connect=connect, credentials=broker.authentication.own_credentials
        )
        self._publisher = AuditPublisher(
            self._reactor, self._counts.counter, EventSender(cluster).send, time_of_day, broker.topics.cluster
        )
        broker.counters.kafka.audit = self._stored
        self._service.before_stop = self._finish

    def _stored(self, topic: str, partition: int, first_id: int, message_set: bytes) -> None:
        assert self._publisher is not None
        self._counts.stored(topic, partition, first_id, message_set, time_of_day())
        self._publisher.changed()

    def _finish(self) -> Deferred[None]:
        """Publish the last counts, before the broker refuses them."""
        publisher, cluster = self._publisher, self._cluster
        if publisher is None or cluster is None:
            return succeed(None)

        async def finish() -> None:
            await publisher.finish_within(FINISH_SECONDS)
            cluster.close()

        return Deferred.fromCoroutine(finish())
