"""The two clusters of a simulated mirror, each with its tree, and the processes of mirrors between them."""

from __future__ import annotations

from random import Random
from typing import cast

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred

from logd.config import BrokerSettings
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.server.settings import CoordinationServerSettings
from logd.deferreds.sleeping import sleep
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import Mirror
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.settings import MirrorSettings
from logd.mirror.topic_names import TopicChoice
from logd.protocol import loops
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import MemoryTree
from logd.topic import TopicPartition
from tests.simulation.mirroring.auditing import AUDIT
from tests.simulation.world import World

_FOR_EVER = 24 * 60 * 60.0


@define(eq=False)
class Side:
    """One cluster: a tree and some brokers, whose hosts begin with ``name``."""

    world: World
    name: str
    #: The cluster's uuid, as mirrors are told it.
    uuid: str
    partitions: int
    tree: MemoryTree = field(init=False)
    brokers: list[MemoryBroker] = field(init=False)

    def __attrs_post_init__(self) -> None:
        world, random = self.world, self.world.random(self.name)
        self.tree = MemoryTree(
            world.clock,
            world.delay,
            world.disk_delay,
            MemoryFiles(world.random(f"{self.name} disk of the tree"), world.clock.seconds),
            Random(random.random()),
            CoordinationServerSettings(),
            host=f"{self.name}-tree",
        )
        self.brokers = [
            MemoryBroker(
                world.network,
                self.tree,
                BrokerSettings(data="/data", id=number, topics_partitions=self.partitions),
                f"{self.name}-{number}",
                files=MemoryFiles(world.random(f"{self.name} disk {number}"), world.clock.seconds),
                disk_delay=world.disk_delay,
                random=Random(random.random()),
            )
            for number in range(random.choice([1, 2]))
        ]

    @property
    def hosts(self) -> list[str]:
        """The hosts of the brokers."""
        return [broker.host for broker in self.brokers]

    @property
    def addresses(self) -> list[str | tuple[str, int]]:
        """The addresses of the brokers."""
        return [broker.address for broker in self.brokers]

    def messages(self, topic: str) -> dict[int, list[Message]]:
        """Return the messages of a topic by partition, from the brokers' files."""
        found: dict[int, list[Message]] = {}
        for broker in self.brokers:
            for log in [] if broker.store is None else broker.store.logs():
                if log.topic == topic:
                    messages = found.setdefault(log.partition, [])
                    for name in sorted(broker.files.list(log.folder)):
                        if name.endswith(".log"):
                            file = broker.files.open_for_reading(f"{log.folder}/{name}")
                            begin = int(name.removesuffix(".log"))
                            messages += loops.decode_set(file.read_at(0, file.size()), begin).messages
                            file.close()
        return found


@define(eq=False)
class SlowGate:
    """Holds some sets back for a while, as a gate does whose registries are slow or away."""

    clock: ProcessClock
    random: Random

    def wait(self, _where: TopicPartition, _named: set[int]) -> Deferred[None] | None:
        """Let most sets pass at once."""
        chance = self.random.random()
        return None if chance < 0.7 else sleep(self.clock, 0.0 if chance < 0.8 else 8 * self.random.random())

    def trouble(self, _where: TopicPartition) -> None:
        """Report nothing."""


@define(eq=False)
class MirrorHost:
    """A mirror's process."""

    world: World
    host: str
    source: Side
    target: Side
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    mirror: Mirror | None = field(default=None, init=False)
    coordination: InProcessCoordination | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def start(self) -> None:
        """Begin a life."""
        random, world = self.random, self.world
        self.clock = clock = ProcessClock(world.clock)
        self.coordination = tree = self.source.tree.client(clock, 4.0, 5.0)
        tree.connect(_FOR_EVER).addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))
        common = {
            "reactor": clock,
            "connect": world.network.connector(self.host, clock, timeout=3.0),
            "random": random.random,
            "request_timeout": 4.0,
            "retry_delay": 0.1,
            "retry_delay_limit": 2.0,
            "metadata_age": 20.0,
        }
        settings = MirrorSettings(
            topics=TopicChoice(".*"),
            buffer_bytes=random.choice([2000, 1 << 20]),
            partition_bytes=random.choice([500, 1 << 20]),
            fetch_bytes=random.choice([200, 1 << 16]),
            commit_interval=random.choice([0.3, 1.0]),
            check_interval=5.0,
            **AUDIT,
            server=self.host,
        )
        self.mirror = Mirror(
            clock,
            settings,
            ClusterAccess(self.source.uuid, self.source.addresses, tree, common),
            ClusterAccess(self.target.uuid, self.target.addresses, None, common),
            random=random.random,
            schemas=random.choice([None, cast(SchemaGate, SlowGate(clock, random))]),
            now=clock.seconds,
        )
        Deferred.fromCoroutine(self.mirror.run()).addErrback(lambda failure: failure.trap(CancelledError))

    def kill(self) -> None:
        """End at once."""
        if self.clock is None or self.coordination is None:
            return
        self.clock.kill()
        self.world.network.graveyard.append((self.clock, self.mirror, self.coordination))
        self.source.tree.forget(self.coordination)
        self.world.network.end_host(self.host)
        self.clock = self.mirror = self.coordination = None
