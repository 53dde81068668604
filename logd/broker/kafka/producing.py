"""Kafka's Produce: its batches as entries, appended as those of native produce requests are."""

from __future__ import annotations

from typing import Any

from attrs import define

from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.kafka.produce_request import KafkaProduceRequest
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.produce import ProduceRequests
from logd.broker.security.rights import Rights
from logd.checkedjson import excerpt
from logd.net.server import Connection
from logd.protocol.kafka.produce import KafkaProduce, KafkaProducedPart


@define(eq=False)
class _Answering:
    """The connection as the handlers of native requests see it; a Produce with acks 0 has a token that is not sent."""

    _connection: Connection

    def answer(self, token: Any, parts: tuple[KafkaProducedPart, ...]) -> None:
        if token is not None:
            if self._connection.meter is not None:
                token.throttle_ms = self._connection.meter.throttle_ms()
            self._connection.answer(token, parts)
            return
        refused = next((part for part in parts if part.error), None)
        if refused is not None:
            self._connection.close(
                f"its records for topic {excerpt(refused.topic)}, partition {refused.partition}, were refused "
                f"({refused.message}), and with acks=0 the end of the connection is the only sign of that"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class KafkaProducing:
    """The Produce requests of one connection."""

    def __init__(self, broker: BrokerCore, connection: Connection, rights: Rights) -> None:
        self._idempotence: Idempotence = broker.idempotence
        self._connection = _Answering(connection)
        answering: Any = self._connection
        #: The handler of native requests; it also says what has to wait.
        self.native = ProduceRequests(broker, answering, rights)
        self.native.latency = broker.counters.latencies.of("kafka", "Produce")

    def produce(self, request: KafkaProduce, token: Any) -> bool:
        """Take a request; return False if it has to wait."""
        parts: Any = request.parts
        acks = request.acks or 1  # with acks 0 the outcome is not sent, but a refusal closes the connection
        return self.native.begin(
            KafkaProduceRequest(self.native, parts, token, acks, request.timeout_ms, self._idempotence)
        )
