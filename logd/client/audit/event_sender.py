"""Sends the events of a client that has no producer, over its connections: one request, with one message set."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from logd.audit.event import AUDIT_TOPIC
from logd.client.cluster.cluster import Cluster
from logd.errors import error_for_code
from logd.protocol import loops
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart


class EventSender:
    """Publishes to AUDIT_TOPIC with acks=-1. A call that fails may be repeated: events are told apart."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def send(self, messages: Sequence[Message]) -> Deferred[None]:
        """Publish messages of one key. Fails with BrokerUnavailable, or another error that the broker answers."""
        return Deferred.fromCoroutine(self._send(messages))

    async def _send(self, messages: Sequence[Message]) -> None:
        cluster = self._cluster
        view = cluster.known(AUDIT_TOPIC) or await cluster.read(AUDIT_TOPIC, create=True)
        key = messages[0].key or b""
        partition = view.partitions[partition_of_key(key, len(view.partitions))]
        timeout = cluster.settings.request_timeout
        with cluster.doubting(AUDIT_TOPIC):
            link = await cluster.find_keeper(AUDIT_TOPIC, partition)
            connection = await link.get()
            part = ProducePart(AUDIT_TOPIC, partition, 0, True, loops.encode_set(messages))
            request = ProduceAck(-1, int(timeout * 900), (part,))  # so that its answer comes before the timeout
            response: ProduceAckResponse = await link.ask(connection, request, timeout)
            error = response.parts[0].error
            if error:
                raise error_for_code(error, f"topic {AUDIT_TOPIC!r}: {error_for_code(error)}")
