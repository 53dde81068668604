"""The systems that the bench knows, by the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from logd.bench.systems.activemq import ActiveMQPeer
from logd.bench.systems.kafka import KafkaPeer
from logd.bench.systems.logd_peer import LogdPeer
from logd.bench.systems.nats_server import NatsPeer
from logd.bench.systems.peer import Peer
from logd.bench.systems.rabbitmq import RabbitPeer
from logd.bench.systems.redis_streams import RedisPeer
from logd.bench.systems.tansu import TansuPeer

SYSTEMS: Mapping[str, type[Peer]] = {
    "logd": LogdPeer,
    "kafka": KafkaPeer,
    "tansu": TansuPeer,
    "redis": RedisPeer,
    "nats": NatsPeer,
    "rabbitmq": RabbitPeer,
    "activemq": ActiveMQPeer,
}
