"""logd and Apache Kafka for the same clients: those of Kafka, with the same settings."""

from __future__ import annotations

from typing import ClassVar

from attrs import define, evolve, field

from logd.bench.systems.peer import PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.servers.kafka import TOOLS, KafkaPeer
from logd.bench.systems.servers.kafka_wire import answers_kafka
from logd.bench.systems.servers.logd_peer import LogdPeer
from logd.testing.processes.broker import free_port

#: The clients of both, without what paces them: no latency is measured here.
_CLIENTS = tuple(
    evolve(client, paced=False, batches=())
    for client in KafkaPeer.clients
    if client.module == TOOLS or "confluent" in client.name
)


@define(eq=False)
class KafkaByKafkaClients(KafkaPeer):
    """Apache Kafka with its defaults."""

    clients: ClassVar[tuple[PeerClient, ...]] = _CLIENTS

    def serves(self) -> bool:
        """See Peer: it answers a request."""
        return answers_kafka(self.port)


@define(eq=False)
class LogdByKafkaClients(LogdPeer):
    """``twistd -n logd`` with its defaults and a listener for clients of Kafka, at ``port``."""

    clients: ClassVar[tuple[PeerClient, ...]] = _CLIENTS
    native_port: int = field(factory=free_port)

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer: the tools that load it are Kafka's."""
        return KafkaPeer.missing(places)

    def option(self, client: PeerClient) -> str:
        """See Peer."""
        return KafkaPeer(self.places, self.folder, self.port).option(client)

    def launch(self) -> None:
        """See Peer."""
        self.start_broker(self.native_port, ("--kafka-listen", f"tcp:{self.port}:interface=127.0.0.1"))

    def serves(self) -> bool:
        """See Peer: it answers a request."""
        return answers_kafka(self.port)

    def create(self, topic: str) -> None:
        """See Peer."""
        self.create_at(self.native_port, topic)
