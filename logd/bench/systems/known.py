"""The systems that the bench knows, by the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from logd.bench.systems.peer import Peer
from logd.bench.systems.servers.activemq import ActiveMQPeer
from logd.bench.systems.servers.kafka import KafkaPeer
from logd.bench.systems.servers.logd_peer import LogdPeer
from logd.bench.systems.servers.nats_server import NatsPeer
from logd.bench.systems.servers.rabbitmq import RabbitPeer
from logd.bench.systems.servers.redis_streams import RedisPeer
from logd.bench.systems.servers.tansu import TansuPeer

SYSTEMS: Mapping[str, type[Peer]] = {
    "logd": LogdPeer,
    "kafka": KafkaPeer,
    "tansu": TansuPeer,
    "redis": RedisPeer,
    "nats": NatsPeer,
    "rabbitmq": RabbitPeer,
    "activemq": ActiveMQPeer,
}
