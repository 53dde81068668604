"""A simulated cluster with replicated topics: a tree, three to five brokers, and what the simulator sees of them."""

from __future__ import annotations

from random import Random

from attrs import define, field
from twisted.python.failure import Failure

from logd.broker.broker import Broker
from logd.broker.replication.leader import LeaderRole
from logd.config import BrokerSettings, LogSettings
from logd.config.kafka import KafkaSettings
from logd.config.replication import ReplicationSettings
from logd.coord.server.settings import CoordinationServerSettings
from logd.errors import LogdError
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import KAFKA_PORT, MemoryBroker
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import MemoryTree
from tests.simulation.replication.disk import Disks
from tests.simulation.replication.gathering import Gathering
from tests.simulation.replication.invariants.checker import Checker
from tests.simulation.replication.invariants.ends import Ends
from tests.simulation.replication.rot import Rot
from tests.simulation.violation import Violation, check
from tests.simulation.world import World

#: The topic of which nothing acknowledged may be lost, and the one that is deleted and made again.
TOPIC = "orders"
REMADE = "drafts"
#: Milliseconds of a broker's session with the tree.
SESSION_MS = 4_000


@define(eq=False)
class ReplicatedCluster:
    """The processes, whose shape the seed decides."""

    world: World
    tree: MemoryTree = field(init=False)
    brokers: list[MemoryBroker] = field(factory=list, init=False)
    disks: Disks = field(init=False)
    random: Random = field(init=False)
    partitions: int = field(init=False)
    replicas: int = field(init=False)
    #: The setting min.insync.replicas.
    least: int = field(init=False)
    #: The settings flush.messages and flush.ms.
    gathering: Gathering = field(init=False)
    #: The hosts of brokers that are not to be started yet.
    held: set[str] = field(factory=set, init=False)
    checkers: dict[str, Checker] = field(factory=dict, init=False)
    rot: Rot = field(init=False)

    def __attrs_post_init__(self) -> None:
        world = self.world
        self.random = random = world.random("replication")
        self.tree = MemoryTree(
            world.clock,
            world.delay,
            world.disk_delay,
            MemoryFiles(world.random("disk of the tree"), world.clock.seconds),
            Random(random.random()),
            CoordinationServerSettings(),
        )
        self.disks = Disks(world.random("disks"), world.clock.seconds)
        self.partitions = random.choice([1, 1, 2])
        self.replicas = random.choice([2, 3, 3])
        self.least = random.choice([1, 2, 2])
        self.gathering = Gathering.chosen(world.random("gathering"))
        log = self.gathering.of_brokers(
            LogSettings(
                segment_bytes=random.choice([300, 2_000, 100_000]), min_insync_replicas=self.least, index_bytes=1024
            )
        )
        replication = ReplicationSettings(
            replica_lag_ms=random.choice([1_000, 3_000]),
            leader_balance_ms=random.choice([-1, 1_000, 5_000]),
            replica_fetch_bytes=random.choice([1_024, 4 << 20]),
        )
        for number in range(
            random.choice([self.replicas, 3, 3, 4, 5]) if self.replicas < 3 else random.choice([3, 3, 4, 5])
        ):
            self._add(number, log, replication)
        for topic in (TOPIC, REMADE):
            self.checkers[topic] = Checker(topic, self.tree, self.brokers, kept=topic == TOPIC)
        self.rot = Rot(self, world.random("rot"))
        self.checker.is_harmed = self.rot.is_harmed

    def _add(self, number: int, log: LogSettings, replication: ReplicationSettings) -> None:
        host = f"broker-{number}"
        self.brokers.append(
            MemoryBroker(
                self.world.network,
                self.tree,
                BrokerSettings(
                    data="/data",
                    id=number,
                    topics_create="explicit",
                    checkpoint_ms=5_000,
                    verify_ms=2_000,
                    zookeeper_session_ms=SESSION_MS,
                    zookeeper_timeout_ms=5_000,
                    log=log,
                    replication=replication,
                    kafka=KafkaSettings(kafka_listen=f"tcp:{KAFKA_PORT}"),
                ),
                host,
                files=self.disks.make(host),
                disk_delay=lambda: self.disks.delay(host, self.world.disk_delay()),
                random=Random(self.random.random()),
            )
        )

    @property
    def checker(self) -> Checker:
        """The checker of the topic that keeps its messages."""
        return self.checkers[TOPIC]

    def look(self) -> None:
        """Check what holds at any time."""
        for checker in self.checkers.values():
            checker.look()

    def begin(self) -> None:
        """Start all, and create the topic."""
        self.tree.start()
        for broker in self.brokers:
            broker.start()
        check(self.world.run(30.0, self._all_know_each_other), "the brokers do not find one another")
        created: list[object] = []
        first = self.brokers[0].broker
        assert first is not None
        settings = self.gathering.of_topics
        creating = first.administration.create(TOPIC, self.partitions, settings, replicas=self.replicas)
        creating.addBoth(created.append)
        check(self.world.run(30.0, lambda: bool(created)), "the topic is not created")
        if isinstance(created[0], Failure):
            check(False, "the topic cannot be created", created[0].getErrorMessage())

    def _all_know_each_other(self) -> bool:
        return all(
            broker.broker is not None
            and broker.broker.ready
            and broker.membership is not None
            and len(broker.membership.live()) == len(self.brokers)
            for broker in self.brokers
        )

    def start_all(self) -> None:
        """Start what does not run."""
        if self.tree.server is None:
            self.tree.start()
        for broker in self.brokers:
            self.start(broker)

    def start(self, broker: MemoryBroker) -> None:
        """Start a broker, unless it runs; if its disk refuses that, a moment later."""
        if broker.clock is None and broker.host not in self.held:
            self.world.trace.note(broker.host, "starts")
            self.rot.put_back(broker)
            try:
                broker.start()
            except LogdError as error:
                if broker.files.room is None:
                    raise Violation("a broker does not start", broker.host, error) from error
                broker.kill()
                self.world.clock.callLater(1.0, self.start, broker)

    def kill_all(self) -> None:
        """Kill all processes."""
        for broker in self.brokers:
            broker.kill()
        self.tree.kill()
        self.world.network.graveyard.append(self.tree)

    def problems(self) -> list[str]:
        """Return what is not well, once faults have ended."""
        found = [
            problem
            for topic, checker in self.checkers.items()
            if topic == TOPIC or checker.replicas()
            for problem in Ends(checker).problems()
        ]
        return found + self.rot.problems()

    def check_ends(self) -> None:
        """Check what holds in the end."""
        for topic, checker in self.checkers.items():
            if topic == TOPIC or checker.replicas():
                Ends(checker).check()

    # Aims of faults

    def leader(self, partition: int = 0) -> MemoryBroker | None:
        """Return the broker that leads according to the tree."""
        state = self.checker.state(partition)
        return None if state is None or state.leader < 0 else self.brokers[state.leader]

    def leading_log(self, partition: int) -> PartitionLog | None:
        """Return the log of the broker that leads, once it does."""
        broker = self.leader(partition)
        log = None if broker is None or broker.store is None else broker.store.log(TOPIC, partition)
        role = None if log is None else log.replica
        return log if isinstance(role, LeaderRole) and role.epoch_start is not None else None

    def controller(self) -> MemoryBroker | None:
        """Return the broker that is the controller."""
        for each in self.brokers:
            if each.broker is not None and each.broker.controller.epoch is not None:
                return each
        return None

    def some_broker(self, random: Random) -> Broker | None:
        """Return a broker that can change topics now, if one can be found."""
        ready = [each.broker for each in self.brokers if each.broker is not None and each.broker.ready]
        return random.choice(ready) if ready else None

    def others_have_all(self, broker: MemoryBroker) -> bool:
        """Return whether other running members have everything that this broker has, in all partitions of all topics.

        Else a partition would rightly have no leader without a person's word.
        """
        if self.rot.harms() or not self.checker.replicas():
            return False
        return all(self._others_have(broker, checker) for checker in self.checkers.values())

    def _others_have(self, broker: MemoryBroker, checker: Checker) -> bool:
        for partition in checker.replicas():
            state = checker.state(partition)
            if state is None:
                return False
            others = [
                each
                for each in self.brokers
                if each is not broker
                and each.settings.id is not None
                and each.store is not None
                and state.is_member(each.settings.id, each.store.instance)
            ]
            if broker.settings.id in (*state.in_sync, *state.last) and not others:
                return False
        return True
