"""One life of a mirrored topic, from a seed: two clusters and their mirrors with faults, and then all must be well."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import cast

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.audit.event import AUDIT_TOPIC
from logd.audit.verdicts import Verdict
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.config import BrokerSettings
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.server.settings import CoordinationServerSettings
from logd.deferreds.sleeping import sleep
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import Mirror
from logd.mirror.positions.pairs import PositionPair
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.settings import MirrorSettings
from logd.mirror.topic_names import PAIRS_TOPIC, TopicChoice
from logd.mirror.whole_entries import MovingSet
from logd.protocol import loops
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import MemoryTree
from logd.topic import TopicPartition
from tests.simulation.mirroring.auditing import AUDIT, account_for_all, verdicts_on
from tests.simulation.violation import check
from tests.simulation.world import World

TOPIC = "orders"
#: Seconds of faults, and seconds within which the target must have everything after them.
TROUBLE_SECONDS = 30.0
SETTLE_SECONDS = 60.0
MESSAGES = 150
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

    def wait(self, _where: TopicPartition, _moving: MovingSet) -> Deferred[None] | None:
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


@define(eq=False)
class MirrorSimulation:
    """Two clusters, a producer, and one or two mirrors."""

    world: World
    source: Side = field(init=False)
    target: Side = field(init=False)
    mirrors: list[MirrorHost] = field(init=False)
    random: Random = field(init=False)
    #: The numbers that the source has acknowledged, by key, in order, and those that were sent.
    acknowledged: set[int] = field(factory=set, init=False)
    sent: int = field(default=0, init=False)
    harm: dict[str, int] = field(factory=dict, init=False)
    _producer: Producer = field(init=False)
    _over: bool = field(default=False, init=False)
    _next_look: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        world = self.world
        self.random = random = world.random("mirroring")
        partitions = random.choice([1, 2, 3])
        self.source = Side(world, "source", "source-uuid", partitions)
        # The target makes topics with the number of the source's, unless it has them already, with its own number.
        self.target = Side(world, "target", "target-uuid", random.choice([1, 2, 3]))
        self.mirrors = [
            MirrorHost(world, f"mirror-{number}", self.source, self.target) for number in range(random.choice([1, 2]))
        ]

    def run(self) -> dict[str, int]:
        """Live; return the faults made. Raises Violation."""
        world = self.world
        for side in (self.source, self.target):
            side.tree.start()
            for broker in side.brokers:
                broker.start()
        for mirror in self.mirrors:
            mirror.start()
        self._producer = Producer(
            self.source.addresses,
            reactor=world.clock,
            connect=world.network.connector("producer", None, timeout=3.0),
            random=self.random.random,
            delivery_timeout=3600.0,
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=2.0,
            format=self.random.choice(["plain", "batch"]),
            compression=self.random.choice(["none", "gzip"]),
            **AUDIT,
            server="web1",
            time_ms=lambda: round(world.clock.seconds() * 1000),
        )
        if self.random.random() < 0.3:  # perhaps with another number of partitions, so that keys decide
            first = Producer(
                self.target.addresses,
                reactor=world.clock,
                connect=world.network.connector("operator"),
                acks=-1,
                random=self.random.random,
            )
            first.send(TOPIC, Message(b"", key=b"first")).addErrback(lambda _: None)
        world.clock.callLater(0.5, self._send)
        world.clock.callLater(2.0, self._harm)
        world.run(TROUBLE_SECONDS)
        self._over = True
        world.network.heal()
        self._start_all()
        complete = world.run(SETTLE_SECONDS, self._complete)
        check(complete, "messages are missing on the target", sorted(self._missing())[:10], self.harm)
        self._check_order()
        self._check_pairs()
        complete = world.run(SETTLE_SECONDS, self._is_accounted)
        check(complete, "the audit does not account for all messages", self._verdicts(), self.harm)
        return self.harm

    def end(self) -> None:
        """Kill all processes."""
        for mirror in self.mirrors:
            mirror.kill()
        for side in (self.source, self.target):
            for broker in side.brokers:
                broker.kill()
            side.tree.kill()
        self.world.network.graveyard.append(self._producer)

    def _send(self) -> None:
        if self.sent < MESSAGES:
            count = self.random.choice([1, 1, 3, 8])
            numbers = range(self.sent, self.sent + count)
            self.sent += count
            key = b"k%d" % self.random.randrange(4)
            sending = self._producer.send(TOPIC, [Message(b"%d" % number, key=key) for number in numbers])
            sending.addCallbacks(self._stored, self._not_stored, callbackArgs=(numbers,))
            self.world.clock.callLater(1.2 * self.random.random(), self._send)

    def _stored(self, _: Sent, numbers: range) -> None:
        self.acknowledged.update(numbers)

    def _not_stored(self, failure: Failure) -> None:
        check(False, "the source did not take a message", failure.getErrorMessage())

    def _harm(self) -> None:
        """Do one of the things that befall processes and networks, and mend it a little later."""
        if self._over:
            return
        random, world = self.random, self.world
        faults: dict[str, Callable[[], object]] = {
            "mirror": random.choice(self.mirrors).kill,
            "mirror again": random.choice(self.mirrors).kill,
            "source broker": lambda: random.choice(self.source.brokers).kill(random.random() < 0.5),
            "target broker": lambda: random.choice(self.target.brokers).kill(random.random() < 0.5),
            "source tree": lambda: self.source.tree.kill(random.random() < 0.5),
            "network to the target": lambda: self._block(self.target),
            "network to the source": lambda: self._block(self.source),
            "cut": self._cut,
        }
        name = random.choice(list(faults))
        self.harm[name] = self.harm.get(name, 0) + 1
        faults[name]()
        world.clock.callLater(random.choice([0.1, 1.0, 6.0]) * random.random(), self._mend)
        world.clock.callLater(3.0 * random.random(), self._harm)

    def _cut(self) -> None:
        for wire in tuple(self.world.network.wires):
            if self.random.random() < 0.5:
                self.world.network.cut(wire)

    def _block(self, side: Side) -> None:
        for host in side.hosts:
            self.world.network.block(self.random.choice(self.mirrors).host, host)

    def _mend(self) -> None:
        self.world.network.heal()
        self._start_all()

    def _start_all(self) -> None:
        for side in (self.source, self.target):
            if side.tree.clock is None:
                side.tree.start()
            for broker in side.brokers:
                if not broker.running:
                    broker.start()
        for mirror in self.mirrors:
            if mirror.clock is None:
                mirror.start()

    def _numbers(self) -> dict[int, list[int]]:
        """Return the numbers stored on the target, by partition."""
        found = self.target.messages(TOPIC)
        return {number: [int(m.payload) for m in messages if m.payload] for number, messages in found.items()}

    def _missing(self) -> set[int]:
        return self.acknowledged - {number for numbers in self._numbers().values() for number in numbers}

    def _complete(self) -> bool:
        """Return whether the target has everything; looks at the files twice a second."""
        everything_sent = self.sent >= MESSAGES and len(self.acknowledged) == self.sent
        return everything_sent and self._looks() and not self._missing()

    def _looks(self) -> bool:
        if due := self.world.clock.seconds() >= self._next_look:
            self._next_look = self.world.clock.seconds() + 0.5
        return due

    def _is_accounted(self) -> bool:
        """Return whether the audit has each message as produced and as mirrored. Raises Violation for a false alarm."""
        return self._looks() and account_for_all(self._verdicts(), self.sent)

    def _verdicts(self) -> list[Verdict]:
        return verdicts_on(self.target.messages(AUDIT_TOPIC), self.source.uuid, self.world.clock.seconds())

    def _check_order(self) -> None:
        """Check that the first copies of each key are in the order of the source's log."""
        here: dict[bytes | None, list[int]] = {}
        there: dict[bytes | None, list[int]] = {}
        for side, found in ((self.source, here), (self.target, there)):
            for messages in side.messages(TOPIC).values():
                for message in messages:
                    if message.payload:
                        found.setdefault(message.key, []).append(int(message.payload))
        for key, numbers in here.items():
            check(
                list(dict.fromkeys(there[key])) == list(dict.fromkeys(numbers)),
                "first copies on the target are in another order",
                key,
                there[key],
                numbers,
            )

    def _check_pairs(self) -> None:
        """Check that all messages at or behind a pair's position have a copy at or behind its place on the target."""
        source, target = self.source.messages(TOPIC), self.target.messages(TOPIC)
        for message in self.target.messages(PAIRS_TOPIC).get(0, []):
            pair = PositionPair.decode(message.payload or b"")
            if pair.topic != TOPIC:
                continue
            wanted = {m.payload for m in source[pair.partition] if (m.id or 0) >= pair.position}
            copies = {
                m.payload
                for number, position in pair.positions.items()
                for m in target.get(number, [])
                if (m.id or 0) >= position
            }
            check(wanted <= copies, "a pair of positions leaves messages out", pair, list(wanted - copies)[:5])


def simulate_mirror(seed: int, show: Callable[[str], None] | None = None) -> dict[str, int]:
    """Run a seed; return the faults made. Raises Violation."""
    return _simulated(World(seed, show))


def digest_of(seed: int) -> str:
    """Run a seed; return the digest of its trace. Raises Violation."""
    world = World(seed)
    _simulated(world)
    return world.trace.digest


def _simulated(world: World) -> dict[str, int]:
    with world.uuids(), world.observed(), world.unburied():
        simulation = MirrorSimulation(world)
        try:
            return simulation.run()
        finally:
            simulation.end()
            del simulation
