"""One life of a replicated topic, from a seed: brokers, disks and the network fail, and then all must be well."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, field
from twisted.python.failure import Failure

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.config import BrokerSettings, LogSettings
from logd.config.replication import ReplicationSettings
from logd.coord.server.settings import CoordinationServerSettings
from logd.errors import LogdError
from logd.protocol import loops
from logd.testing.inprocess.link import HostLink
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import MemoryTree
from tests.simulation.replication.invariants import Invariants, bytes_of
from tests.simulation.violation import Violation, check
from tests.simulation.world import World

TOPIC = "orders"
#: Seconds of faults, and seconds within which all must be well after them.
TROUBLE_SECONDS = 40.0
SETTLE_SECONDS = 90.0
#: Messages of each producer.
MESSAGES = 120
#: Seconds between two checks of what holds at any time.
CHECK_SECONDS = 0.02


@define(eq=False)
class ReplicationSimulation:
    """A cluster with one replicated topic, a producer with acks=-1 and perhaps one with acks=1."""

    world: World
    tree: MemoryTree = field(init=False)
    brokers: list[MemoryBroker] = field(init=False)
    invariants: Invariants = field(init=False)
    random: Random = field(init=False)
    partitions: int = field(init=False)
    replicas: int = field(init=False)
    least: int = field(init=False)
    #: The payloads that were acknowledged with acks=-1.
    acknowledged: set[bytes] = field(factory=set, init=False)
    harm: dict[str, int] = field(factory=dict, init=False)
    _producers: list[Producer] = field(factory=list, init=False)
    _sent: int = field(default=0, init=False)
    _unanswered: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)
    _created: bool = field(default=False, init=False)
    _slow: dict[str, float] = field(factory=dict, init=False)
    _unreachable: list[HostLink] = field(factory=list, init=False)

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
        self.partitions = random.choice([1, 2])
        self.replicas = random.choice([2, 3, 3])
        self.least = random.choice([1, 2, 2])
        log = LogSettings(segment_bytes=random.choice([300, 2_000, 100_000]), min_insync_replicas=self.least)
        replication = ReplicationSettings(
            replica_lag_ms=random.choice([1_000, 3_000]),
            leader_balance_ms=random.choice([-1, 1_000, 5_000]),
            replica_fetch_bytes=random.choice([1_024, 4 << 20]),
        )
        self.brokers = [
            MemoryBroker(
                world.network,
                self.tree,
                BrokerSettings(
                    data="/data",
                    id=number,
                    topics_create="explicit",
                    checkpoint_ms=5_000,
                    zookeeper_session_ms=4_000,
                    zookeeper_timeout_ms=5_000,
                    log=log,
                    replication=replication,
                ),
                f"broker-{number}",
                files=MemoryFiles(world.random(f"disk {number}"), world.clock.seconds),
                disk_delay=lambda host=f"broker-{number}": self._disk_delay(host),  # type: ignore[misc]
                random=Random(random.random()),
            )
            for number in range(random.choice([self.replicas, 3, 4]) if self.replicas < 4 else 4)
        ]
        self.invariants = Invariants(TOPIC, self.tree, self.brokers)

    def run(self) -> dict[str, int]:
        """Live; return the faults made. Raises Violation."""
        world = self.world
        self.tree.start()
        for broker in self.brokers:
            broker.start()
        check(world.run(30.0, self._all_know_each_other), "the brokers do not find one another")
        self._create()
        check(world.run(30.0, lambda: self._created), "the topic is not created")
        for number, acks in enumerate([-1, 1] if self.random.random() < 0.5 else [-1]):
            self._producers.append(
                Producer(
                    [broker.address for broker in self.brokers],
                    reactor=world.clock,
                    connect=world.network.connector(f"producer-{number}", None, timeout=3.0),
                    random=self.random.random,
                    acks=acks,
                    delivery_timeout=3600.0,
                    request_timeout=4.0,
                    retry_delay=0.1,
                    retry_delay_limit=1.0,
                    format=self.random.choice(["plain", "batch"]),
                )
            )
            self._send(number, acks)
        world.clock.callLater(1.0, self._harm)
        self._look()
        world.run(TROUBLE_SECONDS)
        self._over = True
        self._mend_all()
        settled = world.run(SETTLE_SECONDS, self._is_well)
        check(settled, "the cluster does not settle", self._unanswered, self.problems(), self.harm)
        self.invariants.check_end(range(self.partitions))
        self._check_messages()
        return self.harm

    def problems(self) -> list[str]:
        """Return what is not well."""
        return self.invariants.problems(range(self.partitions))

    def end(self) -> None:
        """Kill all processes."""
        for broker in self.brokers:
            broker.kill()
        self.tree.kill()
        self.world.network.graveyard.extend([*self._producers, self.tree])

    # The beginning

    def _all_know_each_other(self) -> bool:
        return all(
            broker.broker is not None
            and broker.broker.ready
            and broker.membership is not None
            and len(broker.membership.live()) == len(self.brokers)
            for broker in self.brokers
        )

    def _create(self) -> None:
        broker = self.brokers[0].broker
        assert broker is not None

        def created(_: object) -> None:
            self._created = True

        def failed(failure: Failure) -> None:
            check(False, "the topic cannot be created", failure.getErrorMessage())

        creating = broker.administration.create(TOPIC, self.partitions, {}, replicas=self.replicas)
        creating.addCallbacks(created, failed)

    # Messages

    def _send(self, number: int, acks: int) -> None:
        if self._sent >= MESSAGES * len(self._producers) or self._over:
            return
        self._sent += 1
        payload = b"%d %d %s" % (number, self._sent, b"x" * self.random.randrange(60))
        self._unanswered += 1
        partition = self.random.randrange(self.partitions)
        sending = self._producers[number].send(TOPIC, payload, partition=partition)
        sending.addCallbacks(self._stored, self._not_stored, callbackArgs=(payload, acks))
        self.world.clock.callLater(0.6 * self.random.random(), self._send, number, acks)

    def _stored(self, sent: Sent, payload: bytes, acks: int) -> None:
        self._unanswered -= 1
        if acks == -1:
            self.acknowledged.add(payload)
            ends = self.invariants.acknowledged
            ends[sent.partition] = max(ends.get(sent.partition, 0), sent.next_position)
            shown = len(self.invariants.shown.get(sent.partition, b""))
            if shown < sent.next_position:
                self.invariants.check(range(self.partitions))

    def _not_stored(self, failure: Failure) -> None:
        check(False, "a message was not taken", failure.getErrorMessage())

    def _check_messages(self) -> None:
        """Check that every acknowledged message is in the logs."""
        found: set[bytes] = set()
        for broker in self.brokers:
            for log in [] if broker.store is None else broker.store.logs_of(TOPIC):
                for message in loops.decode_set(bytes_of(broker, log, log.start, log.end), log.start).messages:
                    found.add(message.payload or b"")
        check(self.acknowledged <= found, "acknowledged messages are lost", sorted(self.acknowledged - found)[:5])

    # Checks

    def _look(self) -> None:
        if not self._over:
            self.invariants.check(range(self.partitions))
            self.world.clock.callLater(CHECK_SECONDS, self._look)

    def _is_well(self) -> bool:
        return not self._unanswered and not self.problems()

    # Faults

    def _disk_delay(self, host: str) -> float:
        least = 0.3 if self._slow.get(host, 0.0) > self.world.clock.seconds() else 0.0
        return max(self.world.disk_delay(), least)

    def _harm(self) -> None:
        """Do one of the things that befall processes, disks and networks, and mend it a little later."""
        if self._over:
            return
        random, world = self.random, self.world
        broker, other = random.sample(self.brokers, 2)
        faults: dict[str, Callable[[], object]] = {
            "kill": broker.kill,
            "kill two": lambda: self._kill([broker, other], power_lost=False),
            "power": lambda: broker.kill(True),
            "all without power": lambda: self._kill(self.brokers, power_lost=True),
            "kill the leader": lambda: self._kill_leader(random.random() < 0.5),
            "pause": lambda: self._pause(broker, random.choice([1.0, 6.0])),
            "block": lambda: world.network.block(broker.host, other.host),
            "without the tree": lambda: self._block_tree(broker),
            "tree": lambda: self.tree.kill(random.random() < 0.5),
            "cut": self._cut,
            "slow disk": lambda: self._slow.__setitem__(broker.host, world.clock.seconds() + 3.0),
            "stop": lambda: self._stop(broker),
            "new disk": lambda: self._replace_disk(broker),
        }
        name = random.choice(list(faults))
        self.harm[name] = self.harm.get(name, 0) + 1
        world.trace.note("harm", name, broker.host)
        faults[name]()
        world.clock.callLater(random.choice([0.2, 2.0, 8.0]) * random.random(), self._mend)
        world.clock.callLater(4.0 * random.random(), self._harm)

    def _kill(self, brokers: list[MemoryBroker], power_lost: bool) -> None:
        for broker in brokers:
            broker.kill(power_lost)

    def _kill_leader(self, power_lost: bool) -> None:
        state = self.invariants.state(0)
        if state is not None and state.leader >= 0:
            self.brokers[state.leader].kill(power_lost)

    def _pause(self, broker: MemoryBroker, seconds: float) -> None:
        clock = broker.clock
        if clock is not None:
            clock.pause()
            self.world.clock.callLater(seconds, lambda: clock.resume() if broker.clock is clock else None)

    def _block_tree(self, broker: MemoryBroker) -> None:
        if broker.coordination is not None:
            link = broker.coordination.link
            link.reachable = False
            link.cut()
            self._unreachable.append(link)

    def _cut(self) -> None:
        for wire in tuple(self.world.network.wires):
            if self.random.random() < 0.5:
                self.world.network.cut(wire)

    def _stop(self, broker: MemoryBroker) -> None:
        if broker.clock is not None:
            broker.stop().addErrback(lambda failure: failure.trap(LogdError))

    def _replace_disk(self, broker: MemoryBroker) -> None:
        """Replace a disk whose messages others have, by the state of every partition."""
        for partition in range(self.partitions):
            state = self.invariants.state(partition)
            if state is None:
                return
            others = [
                each
                for each in self.brokers
                if each is not broker
                and each.settings.id is not None
                and each.store is not None
                and state.is_member(each.settings.id, each.store.instance)
            ]
            if broker.settings.id in (*state.in_sync, *state.last) and not others:
                return
        broker.kill(True)
        broker.files = MemoryFiles(Random(self.random.random()), self.world.clock.seconds)

    def _mend(self) -> None:
        self.world.network.heal()
        while self._unreachable:
            self._unreachable.pop().reachable = True
        self._start_all()

    def _start_all(self) -> None:
        if self.tree.server is None:
            self.tree.start()
        for broker in self.brokers:
            if broker.clock is None:
                try:
                    broker.start()
                except LogdError as error:
                    raise Violation("a broker does not start", broker.host, error) from error

    def _mend_all(self) -> None:
        self._slow.clear()
        self._mend()
        self.world.clock.callLater(11.0, self._start_all)  # what was being stopped has stopped by then
