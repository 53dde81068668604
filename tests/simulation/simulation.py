"""One life of a whole cluster, from a seed: it is built, there is trouble, it is mended, and then all has to be well."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from logd.config import BrokerSettings, LogSettings
from logd.protocol.loops import decode_set
from logd.testing.memorybroker import MemoryBroker
from logd.testing.memoryfiles import MemoryFiles
from logd.testing.memorytree import MemoryTree
from tests.simulation.consuming import ConsumingApplication
from tests.simulation.faults import Faults
from tests.simulation.ledger import Ledger, Place
from tests.simulation.producing import ProducingApplication
from tests.simulation.violation import check
from tests.simulation.world import World

#: Seconds within which everything has to be well after the last fault.
SETTLE_SECONDS = 120.0


@frozen
class Report:
    """What a seed was like."""

    digest: str
    messages: int
    acknowledged: int
    duplicates: int
    faults: dict[str, int]
    events: int
    #: From the last fault until everything was handled.
    settled_after: float


def simulate(seed: int, show: Callable[[str], None] | None = None) -> Report:
    """Run a seed. Raises Violation."""
    world = World(seed, show)
    with world.uuids(), world.observed():
        return Simulation(world).run()


@define(eq=False)
class Simulation:
    """The processes of one life."""

    world: World
    tree: MemoryTree = field(init=False)
    ledger: Ledger = field(factory=Ledger, init=False)
    brokers: list[MemoryBroker] = field(factory=list, init=False)
    producers: list[ProducingApplication] = field(factory=list, init=False)
    consumers: list[ConsumingApplication] = field(factory=list, init=False)

    def run(self) -> Report:
        """See ``simulate``."""
        world = self.world
        random = world.random("shape")
        self.tree = MemoryTree(
            world.clock,
            world.delay,
            world.disk_delay,
            MemoryFiles(world.random("disk of the tree"), world.clock.seconds),
            world.random("tree"),
        )
        log = LogSettings(segment_bytes=random.choice([500, 100_000]))
        partitions = random.choice([1, 2, 4])
        for number in range(random.choice([1, 2, 3])):
            settings = BrokerSettings(
                data="/data",
                id=number,
                checkpoint_ms=5_000,
                topics_partitions=partitions,
                zookeeper_session_ms=random.choice([4_000, 8_000]),
                zookeeper_timeout_ms=5_000,
                log=log,
            )
            files = MemoryFiles(world.random(f"disk {number}"), world.clock.seconds)
            self.brokers.append(
                MemoryBroker(
                    world.network,
                    self.tree,
                    settings,
                    f"broker-{number}",
                    files=files,
                    disk_delay=world.disk_delay,
                    random=world.random(f"broker {number}"),
                )
            )
        topics = ["alpha", "beta"]
        brokers = [broker.address for broker in self.brokers]
        for number in range(random.choice([1, 2])):
            self.producers.append(
                ProducingApplication(world, self.ledger, f"producer-{number}", brokers, topics, 60, 0.3)
            )
        for number in range(2):
            self.consumers.append(ConsumingApplication(world, self.ledger, f"consumer-{number}", brokers, topics))
        for process in [self.tree, *self.brokers, *self.producers, *self.consumers]:
            process.start()
        faults = Faults(world, self.tree, self.brokers, list(self.producers), list(self.consumers), random.choice([0.5, 2.0]))
        faults.begin()
        world.run(30.0)
        faults.end()
        begin = world.clock.seconds()
        world.run(SETTLE_SECONDS, self._settled)
        settled_after = world.clock.seconds() - begin
        for producer in self.producers:
            check(producer.finished, "a producer never finished", producer.host, producer.sent, producer.unanswered)
        for consumer in self.consumers:
            self.ledger.check_complete(consumer.host)
        self.ledger.check_logs(self._logs())
        return Report(
            world.trace.digest,
            len(self.ledger.sent),
            len(self.ledger.acknowledged),
            self.ledger.duplicates,
            faults.made,
            world.clock.events,
            settled_after,
        )

    def _settled(self) -> bool:
        processes = [self.tree, *self.brokers, *self.producers, *self.consumers]
        if not all(process.clock is not None for process in processes):
            return False
        return all(producer.finished for producer in self.producers) and not any(
            self.ledger.missing(consumer.host) for consumer in self.consumers
        )

    def _logs(self) -> dict[Place, list[bytes]]:
        """What the brokers have, by their files."""
        found: dict[Place, list[bytes]] = {}
        for broker in self.brokers:
            assert broker.store is not None
            for log in broker.store.logs():
                payloads = []
                names = [name for name in broker.files.list(log.folder) if name.endswith(".log")]
                for name in names:
                    file = broker.files.open_for_reading(f"{log.folder}/{name}")
                    decoded = decode_set(file.read_at(0, file.size()), 0)
                    file.close()
                    payloads += [message.payload for message in decoded.messages if message.payload is not None]
                found[log.topic, log.partition] = payloads
        return found
