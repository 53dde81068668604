"""The processes of a simulated cluster, whose size and settings the seed decides."""

from __future__ import annotations

import re
from random import Random
from typing import Protocol

from attrs import define, evolve, field

from logd.config import BrokerSettings, LogSettings
from logd.config.kafka import KafkaSettings
from logd.coord.server.settings import CoordinationServerSettings
from logd.testing.memory.broker import KAFKA_PORT, MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import MemoryTree
from tests.simulation.actors.accepting import Accepting
from tests.simulation.actors.consuming import ConsumingApplication
from tests.simulation.actors.members import Member
from tests.simulation.actors.operator import Operator
from tests.simulation.actors.overseer import Overseer
from tests.simulation.actors.producing import ProducingApplication
from tests.simulation.actors.strangers import LegacyProducer
from tests.simulation.kafka.client import KafkaClient
from tests.simulation.ledger import Ledger
from tests.simulation.world import World

#: Topics that get messages from the beginning, and one that begins later.
TOPICS = ("orders", "web-a", "web-b")
LATE_TOPIC = "web-late"
#: Messages that each producer sends.
MESSAGES = 60
#: Subscriptions of members; each covers all topics.
SUBSCRIPTIONS: tuple[tuple[str | re.Pattern[str], ...], ...] = (
    (*TOPICS, LATE_TOPIC),
    (re.compile(r"web-.*"), "orders"),
    (re.compile(r"web-[a-z]|web-late"), re.compile(r"ord.*")),
)
#: Seconds that each wait for a slow disk takes at least.
SLOW_SECONDS = 0.15
#: The last of each so many seeds has a client of today's Kafka. Others are as they were without such clients.
KAFKA_EVERY = 5


def with_small_limits(settings: BrokerSettings) -> BrokerSettings:
    """Return the settings of a broker that pauses producers soon, and keeps few incomplete requests."""
    log = evolve(settings.log, message_bytes=100_000)
    return evolve(settings, log=log, frame_bytes=400_000, frames_bytes=400_000 + (1 << 20), unflushed_bytes=1_000)


class Process(Protocol):
    """A process that can be started and killed. ``clock`` is that of its life, None while it does not run."""

    @property
    def host(self) -> str:
        """The name of its host."""
        ...

    @property
    def clock(self) -> ProcessClock | None:
        """See the class."""
        ...

    def start(self) -> None:
        """Begin a life."""
        ...

    def kill(self) -> None:
        """End at once."""
        ...


@define(eq=False)
class SimulatedCluster:
    """All processes, none of them started at first."""

    world: World
    ledger: Ledger = field(factory=Ledger, init=False)
    tree: MemoryTree = field(init=False)
    overseer: Overseer = field(init=False)
    brokers: list[MemoryBroker] = field(factory=list, init=False)
    producers: list[ProducingApplication] = field(factory=list, init=False)
    consumers: list[ConsumingApplication] = field(factory=list, init=False)
    members: list[Member] = field(factory=list, init=False)
    operator: Operator = field(init=False)
    strangers: list[LegacyProducer] = field(factory=list, init=False)
    #: Clients of today's Kafka, in some seeds; the brokers of others do not listen for them.
    kafka: list[KafkaClient] = field(factory=list, init=False)
    acceptor: Accepting = field(init=False)
    #: Mean seconds of a write of the tree's disk.
    tree_disk: float = field(init=False)
    #: Partitions of each topic.
    partitions: int = field(init=False)
    #: The time until which a broker's disk hangs, by host.
    hung: dict[str, float] = field(factory=dict, init=False)
    #: Until when each wait for the disk of a broker takes longer, by host.
    slow: dict[str, float] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        world = self.world
        random = world.random("shape")
        delays = world.random("disk of the tree")
        self.tree_disk = random.choice([0.002, 0.05, 0.3])
        self.tree = MemoryTree(
            world.clock,
            world.delay,
            lambda: self.tree_disk * (0.5 + delays.random()),
            MemoryFiles(world.random("disk of the tree"), world.clock.seconds),
            world.random("tree"),
            CoordinationServerSettings(snapshot_bytes=world.random("snapshots").choice([4_000, 16_000, 64 << 20])),
        )
        self.overseer = Overseer(world, self.tree, self.ledger)
        self.operator = Operator(world, self.ledger, self.tree, self.overseer)
        self.acceptor = Accepting(world, self.ledger)
        self.partitions = random.choice([1, 2, 3, 4])
        has_kafka = world.seed % KAFKA_EVERY == KAFKA_EVERY - 1
        for number in range(random.choice([1, 2, 3])):
            self._add_broker(number, random, has_kafka)
        addresses = [broker.address for broker in self.brokers]
        for number in range(random.choice([1, 2])):
            self.producers.append(
                ProducingApplication(
                    world, self.ledger, f"producer-{number}", addresses, list(TOPICS), LATE_TOPIC, MESSAGES, 10, 0.3
                )
            )
        others = world.random("strangers")
        if others.random() < 0.3:
            careless = ProducingApplication(
                world, self.ledger, "careless", addresses, list(TOPICS), LATE_TOPIC, MESSAGES, 10, 0.3, 0
            )
            self.producers.append(careless)
        if others.random() < 0.5:
            pace = others.choice([0.02, 0.3])
            for producer in self.producers:
                producer.keys = False
            self.strangers.append(LegacyProducer(world, self.ledger, "legacy", addresses, list(TOPICS), pace))
        if has_kafka:
            hosts = [broker.host for broker in self.brokers]
            self.kafka.append(KafkaClient(world, self.ledger, "kafka", hosts, list(TOPICS), bool(self.strangers)))
        if random.random() < 0.2:
            self.consumers.append(ConsumingApplication(world, self.ledger, "reader", addresses, list(TOPICS)))
        for group in ("red", "blue"):
            for number in range(random.choice([1, 2, 3])):
                subscriptions = [(topic, random.choice([1, 1, 2])) for topic in random.choice(SUBSCRIPTIONS)]
                self.members.append(
                    Member(world, self.ledger, self.tree, self.overseer, group, f"{group}-{number}", subscriptions)
                )

    @property
    def groups(self) -> dict[str, list[Member]]:
        """The members of each group."""
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.group, []).append(member)
        return found

    @property
    def all_running(self) -> bool:
        """True when every process runs."""
        return all(process.clock is not None for process in self.processes)

    @property
    def processes(self) -> list[Process]:
        """All processes, in the order of their start."""
        return [
            self.tree,
            *self.brokers,
            *self.producers,
            *self.strangers,
            *self.kafka,
            *self.consumers,
            *self.members,
            self.operator,
        ]

    def start(self) -> None:
        """Start all processes."""
        self.start_tree()
        for process in self.processes[1:]:
            process.start()

    def start_tree(self) -> None:
        """Start the tree, observed by the overseer."""
        self.tree.start()
        self.overseer.watch()

    def _disk_delay(self, host: str) -> float:
        """Return the seconds that a wait for a broker's disk takes."""
        now = self.world.clock.seconds()
        least = SLOW_SECONDS if self._is_slow(host) else 0.0
        return max(self.world.disk_delay(), self.hung.get(host, 0.0) - now, least)

    def _is_slow(self, host: str) -> bool:
        """Return whether each wait for that broker's disk takes long at the moment; then no page is in memory."""
        return self.slow.get(host, 0.0) > self.world.clock.seconds()

    def _add_broker(self, number: int, random: Random, has_kafka: bool) -> None:
        world = self.world
        ages = world.random(f"ages {number}")
        by_time = ages.random() < 0.25
        gathers = world.random(f"flushes {number}").random() < 0.4
        settings = BrokerSettings(
            data="/data",
            id=number,
            checkpoint_ms=5_000,
            topics_partitions=self.partitions,
            zookeeper_session_ms=random.choice([4_000, 8_000]),
            zookeeper_timeout_ms=5_000,
            retention_check_ms=2_000 if by_time else 300_000,
            log=LogSettings(
                segment_bytes=random.choice([200, 500, 100_000]),
                retention_ms=ages.choice([8_000, 20_000]) if by_time else -1,
                flush_messages=20 if gathers else -1,
                flush_ms=1_500 if gathers else -1,
            ),
        )
        if not gathers and world.random(f"limits {number}").random() < 0.4:
            settings = with_small_limits(settings)
        if has_kafka:
            settings = evolve(settings, kafka=KafkaSettings(kafka_listen=f"tcp:{KAFKA_PORT}"))
        host = f"broker-{number}"
        broker = MemoryBroker(
            world.network,
            self.tree,
            settings,
            host,
            files=MemoryFiles(world.random(f"disk {number}")),
            disk_delay=lambda: self._disk_delay(host),
            random=world.random(f"broker {number}"),
        )
        broker.files.now = broker.wall
        mounts = world.random(f"file systems {number}")
        broker.files.syncs_whole = mounts.random() < 0.6
        if mounts.random() < 0.3:
            broker.files.mounts = {f"{settings.data}/{mounts.choice(TOPICS)}-0": 2}
        pages = world.random(f"pages {number}")
        if pages.random() < 0.5:
            broker.open_readers = 1
            broker.files.cold = lambda: self._is_slow(host) or pages.random() < 0.3
        self.brokers.append(broker)
