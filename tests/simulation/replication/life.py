"""One life of replicated topics, from a seed: all kinds of things fail for a while, and then all must be well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from unittest import mock

from attrs import define, field
from twisted.logger import LogEvent

from logd.broker.replication import replica_requests
from logd.protocol import loops
from logd.testing.memory.disk import PowerLoss
from tests.simulation.replication.calm import begin_calmly
from tests.simulation.replication.cluster import TOPIC, ReplicatedCluster
from tests.simulation.replication.contents import bytes_of
from tests.simulation.replication.faults import Faults
from tests.simulation.replication.late_messages import send_late_messages
from tests.simulation.replication.producers import PACE, IdempotentProducing, Producing
from tests.simulation.replication.readers import Reading, Shown
from tests.simulation.violation import check
from tests.simulation.world import World

#: Seconds of faults, and seconds within which all must be well after them.
TROUBLE_SECONDS = 25.0
SETTLE_SECONDS = 90.0
#: Mean seconds between two messages with acks=-1, each of which ends the gathering of a partition.
PACES = (PACE, 2.0, 20.0)


class ReplicationWorld(World):
    """A world in which brokers die in the middle of changes of their disks."""

    def logged(self, event: LogEvent) -> None:
        """See World: what a broker says of its own death does not count."""
        failure = event.get("log_failure")
        if failure is None or not failure.check(PowerLoss):
            World.logged(self, event)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """See World."""
        end = self.clock.seconds() + seconds
        while True:
            try:
                return World.run(self, end - self.clock.seconds(), until)
            except PowerLoss:
                continue


@define(eq=False)
class Life:
    """A cluster, its clients, and what befalls them. ``run`` alone is called; or the parts of it, in order."""

    world: World
    #: The kinds of faults, and the fault at the beginning; none: the seed chooses.
    kinds: tuple[str, ...] = ()
    calm: str = ""
    cluster: ReplicatedCluster = field(init=False)
    faults: Faults = field(init=False)
    producers: list[Producing | IdempotentProducing] = field(factory=list, init=False)
    readers: list[Reading] = field(factory=list, init=False)
    shown: list[Shown] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        random = self.world.random("clients")
        self.cluster = cluster = ReplicatedCluster(self.world)
        gathers = cluster.gathering.is_on
        pace = self.world.random("pace").choice(PACES) if gathers else PACE
        self.producers.append(Producing(cluster, "producer-all", -1, pace))
        if random.random() < 0.4 or gathers:
            self.producers.append(Producing(cluster, "producer-one", 1))
        if random.random() < 0.4:
            copies = random.randint(2, cluster.replicas)
            self.producers.append(Producing(cluster, "producer-copies", copies))
        if random.random() < 0.6:
            self.producers.append(IdempotentProducing(cluster, pace=pace))
        group = Shown(cluster, "the group")
        alone = Shown(cluster, "the reader")
        self.shown = [group, alone]
        self.readers.append(Reading(cluster, "reader", alone, False))
        self.readers += [Reading(cluster, f"member-{number}", group, True) for number in range(random.choice([1, 2]))]
        clients = [each.host for each in (*self.producers, *self.readers)]
        self.faults = Faults(cluster, self.readers, clients, self.kinds)

    def run(self) -> Counter[str]:
        """Live; return the faults made. Raises Violation."""
        self.begin()
        begin_calmly(self)
        self.faults.begin()
        self.go_on(TROUBLE_SECONDS)
        self.settle()
        return self.faults.made

    def begin(self) -> None:
        """Start all, and let clients do their work from now on."""
        self.cluster.begin()
        for client in (*self.producers, *self.readers):
            client.start()

    def go_on(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, and check after each event what holds at any time; return whether ``until()`` holds."""

        def look() -> bool:
            self.cluster.look()
            self.shown[0].look()
            return until()

        return self.world.run(seconds, look)

    def settle(self) -> None:
        """End all faults, and check that all is well soon after."""
        for producer in self.producers:
            producer.over = True
        self.faults.end()
        self.wait_until_well(SETTLE_SECONDS, self.faults.made)
        if self.cluster.gathering.is_on:
            send_late_messages(self)
        self.cluster.check_ends()
        if self.cluster.checker.keeps:
            self._check_messages()

    def wait_until_well(self, seconds: float, after: object) -> None:
        """Let time pass until all is well. Raises Violation if that takes too long ``after`` something."""
        next_look = [0.0]

        def is_well() -> bool:
            now = self.world.clock.seconds()
            if now < next_look[0]:
                return False
            next_look[0] = now + 0.05
            return not self.problems()

        settled = self.go_on(seconds, is_well)
        check(settled, "liveness: the cluster does not settle", self.problems(), after, self.cluster.gathering)

    def problems(self) -> list[str]:
        """Return what is not well."""
        found = self.cluster.problems()
        found += [f"{each.host}: {each.unanswered} unanswered" for each in self.producers if each.unanswered]
        if self.cluster.checker.keeps:
            found += [
                f"{each.name} has not read all of {number}"
                for each in self.shown
                for number in range(self.cluster.partitions)
                if not each.is_complete(number)
            ]
        return found

    def end(self) -> None:
        """Kill all processes."""
        for reader in self.readers:
            reader.kill()
        self.cluster.kill_all()
        self.world.network.graveyard.append(self.producers)

    def _check_messages(self) -> None:
        """Check that every acknowledged message that was not removed was read, and is in the logs."""
        removed = any(self.cluster.checker.record(number).removed for number in range(self.cluster.partitions))
        found: set[bytes] = set()
        for broker in self.cluster.brokers:
            for log in [] if broker.store is None else broker.store.logs_of(TOPIC):
                for message in loops.decode_set(bytes_of(broker, log, log.start, log.end), log.start).messages:
                    found.add(message.payload or b"")
        for producer in self.producers:
            lost = producer.acknowledged - found
            check(removed or not lost, "acknowledged messages are lost", producer.host, sorted(lost)[:5])
        for shown in self.shown:
            read = set(shown.payloads.values())
            for producer in self.producers:
                missed = producer.acknowledged - read
                check(removed or not missed, "a reader has missed messages", shown.name, sorted(missed)[:5])


def live(
    seed: int,
    show: Callable[[str], None] | None = None,
    run: Callable[[Life], object] = Life.run,
    kinds: tuple[str, ...] = (),
    calm: str = "",
) -> tuple[Counter[str], str]:
    """Run a seed; return the faults made, and the hash of all events. Raises Violation."""
    world = ReplicationWorld(seed, show)
    # Answers of few partitions: what a follower has to be told of one waits while there are others.
    most = mock.patch.object(replica_requests, "MOST_SENT", world.random("most sent").choice([1, 500]))
    with world.randomness(), world.observed(), world.unburied(), most:
        life = Life(world, kinds, calm)
        try:
            run(life)
            return life.faults.made, world.trace.digest
        finally:
            life.end()
            del life
