"""The faults of one life: a seed has some kinds of them, at its own pace; each is mended a little later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.errors import LogdError
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.replication.cluster import ReplicatedCluster
from tests.simulation.replication.network import NetworkFaults
from tests.simulation.replication.operators import Operators
from tests.simulation.replication.readers import Reading

#: Of all kinds of faults, a seed has so many.
KINDS = (4, 7, 12)
#: The longest a pause lasts: longer than a session.
LONGEST_PAUSE = 8.0


@define(eq=False)
class Faults:
    """The maker of faults."""

    cluster: ReplicatedCluster
    readers: list[Reading]
    #: The hosts of clients.
    clients: list[str]
    #: These kinds alone; none: the seed chooses.
    only: tuple[str, ...] = ()
    random: Random = field(init=False)
    network: NetworkFaults = field(init=False)
    operators: Operators = field(init=False)
    made: Counter[str] = field(factory=Counter, init=False)
    _kinds: dict[str, Callable[[], object]] = field(factory=dict, init=False)
    _over: bool = field(default=False, init=False)
    _mending: bool = field(default=False, init=False)
    _pace: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.random = random = self.cluster.world.random("faults")
        self.network = NetworkFaults(self.cluster, random)
        self.operators = Operators(self.cluster, self.cluster.world.random("operators"))
        self._pace = random.choice([1.0, 2.0, 4.0])
        kinds = self.all_kinds()
        for name in self.only or sorted(random.sample(sorted(kinds), random.choice(KINDS))):
            self._kinds[name] = kinds[name]

    def all_kinds(self) -> dict[str, Callable[[], object]]:
        """Return all kinds of faults, by name."""
        cluster, network, operators = self.cluster, self.network, self.operators
        some, leader, random = self._some, self._leader, self.random
        return {
            "kill": lambda: some().kill(),
            "kill two": lambda: self._kill(random.sample(cluster.brokers, 2), False),
            "kill the leader": lambda: leader().kill(random.random() < 0.5),
            "kill the controller": lambda: self._controller().kill(random.random() < 0.5),
            "kill in a change": self._die_at_change,
            "kill the successor in a change": self._die_at_beginning,
            "kill all but one": lambda: self._kill(random.sample(cluster.brokers, len(cluster.brokers) - 1), True),
            "power of one": lambda: some().kill(True),
            "power of all": lambda: self._kill(cluster.brokers, True),
            "two failovers": self._fail_over_twice,
            "replica left behind": self._leave_behind,
            "late leader": lambda: network.delay_tree(leader()),
            "stop": lambda: self._stop(some()),
            "stop the leader": lambda: self._stop(leader()),
            "pause": lambda: self._pause(some()),
            "pause the leader": lambda: self._pause(leader()),
            "pause the controller": lambda: self._pause(self._controller()),
            "clock": lambda: some().set_clock(random.choice([-3600.0, -5.0, 5.0, 3600.0])),
            "block": lambda: network.block(*random.sample(cluster.brokers, 2)),
            "block one way": lambda: network.block_one_way(*random.sample(cluster.brokers, 2)),
            "isolate the leader": lambda: network.isolate(leader()),
            "hide the leader": lambda: network.hide_from_clients(leader(), self.clients),
            "cut": network.cut,
            "flap": lambda: network.flap(some(), 6),
            "lose the tree": lambda: network.lose_tree(some()),
            "leader without the tree": lambda: network.lose_tree(leader()),
            "late watches": lambda: network.delay_tree(some()),
            "expire": lambda: network.expire(some()),
            "expire all": network.expire_all,
            "tree": lambda: cluster.tree.kill(random.random() < 0.5),
            "slow disk": lambda: cluster.disks.slow_down(some().host, 4.0),
            "slow leader": lambda: cluster.disks.slow_down(leader().host, 4.0),
            "full disk": lambda: self._fill(some(), 3.0),
            "full leader": lambda: self._fill(leader(), 20.0),
            "failed sync": lambda: setattr(some().files, "fail_syncs", 1),
            "new disk": self._replace_disk,
            "old disk": self._give_back_disk,
            "spoilt file": self._spoil,
            "rot": lambda: cluster.rot.make(some(), random.randrange(cluster.partitions)),
            "rot of the leader": lambda: self._rot_leader(random.randrange(cluster.partitions)),
            "reader": self._kill_reader,
            "retention": lambda: operators.remove_messages(random.randrange(cluster.partitions)),
            "reassign": operators.reassign,
            "unclean election": self._lose_members,
            "needless election": operators.elect_unclean,
            "drain": operators.drain,
            "min.insync.replicas": operators.change_least,
            "more partitions": operators.add_partition,
            "topic again": operators.remake,
        }

    def begin(self) -> None:
        """Begin to make faults."""
        self._later(1.0, self._next)

    def make(self, name: str) -> None:
        """Make one fault, of any kind."""
        self.made[name] += 1
        self.cluster.world.trace.note("fault", name)
        self.all_kinds()[name]()

    def end(self) -> None:
        """Make no more faults, and mend all."""
        self._over = True
        self.cluster.disks.mend()
        for broker in self.cluster.brokers:
            if broker.clock is not None:
                broker.clock.resume()
        self.cluster.held.clear()
        self.operators.end()
        self.mend()
        for seconds in (11.0, 25.0):  # what was being stopped has stopped by then
            self._later(seconds, self._mend_offline)

    def _mend_offline(self) -> None:
        """Start brokers again whose logs are offline, as their logs advise, and those that have stopped."""
        for broker in self.cluster.brokers:
            if broker.store is not None and any(log.offline is not None for log in broker.store.logs()):
                broker.kill()
        self.mend()

    def mend(self) -> None:
        """Mend the network, and start what does not run."""
        self._mending = False
        self.network.mend()
        self.cluster.start_all()
        for reader in self.readers:
            reader.start()

    def _next(self) -> None:
        if self._over:
            return
        name = self.random.choice(list(self._kinds))
        self.made[name] += 1
        self.cluster.world.trace.note("fault", name)
        self._kinds[name]()
        if not self._mending:  # so that several faults meet, and some outlast sessions
            self._mending = True
            self._later(self.random.choice([0.5, 3.0, 8.0, 12.0]) * self.random.random(), self.mend)
        self._later(2 * self._pace * self.random.random(), self._next)

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self.cluster.world.clock.callLater(seconds, call)

    # Whom it hits

    def _some(self) -> MemoryBroker:
        return self.random.choice(self.cluster.brokers)

    def _leader(self) -> MemoryBroker:
        return self.cluster.leader(self.random.randrange(self.cluster.partitions)) or self._some()

    def _controller(self) -> MemoryBroker:
        return self.cluster.controller() or self._some()

    # Processes

    def _kill(self, brokers: list[MemoryBroker], power_lost: bool) -> None:
        for broker in brokers:
            broker.kill(power_lost)

    def _die_at_change(self) -> None:
        """Kill a broker in the middle of a change of its disk: a write, a sync, a rename, a removal."""
        broker = self._leader() if self.random.random() < 0.5 else self._some()
        self.cluster.disks.die_at_change(broker, self.random.randint(1, 40), self.random.random() < 0.6)

    def _die_at_beginning(self) -> None:
        """Kill the leader while its successor lacks messages, and that one as it begins to lead."""
        state, cluster, leader, random = self.cluster.checker.state(0), self.cluster, self._leader(), self.random
        replicas = cluster.checker.replicas().get(0, ())
        others = [number for number in replicas if state is not None and number in state.in_sync]
        others = [number for number in others if cluster.brokers[number] is not leader]
        clock = cluster.brokers[others[0]].clock if others else None
        if clock is None:
            return
        successor = cluster.brokers[others[0]]
        clock.pause()

        def fail() -> None:
            leader.kill(random.random() < 0.5)
            self.network.expire(leader)
            cluster.disks.die_at_change(successor, random.randint(4, 12), random.random() < 0.6)
            clock.resume()

        def fail_over() -> None:
            if successor.clock is None:
                self.network.expire(successor)
                self._later(2.0 * random.random(), lambda: cluster.start(successor))

        self._later(0.2 + 0.8 * random.random(), fail)
        self._later(2.0 + 2.0 * random.random(), fail_over)

    def _fail_over_twice(self) -> None:
        """Kill the leader, and its successor as soon as it leads."""
        first, random = self._leader(), self.random
        first.kill(random.random() < 0.5)
        self.network.expire(first)

        def again() -> None:
            second = self.cluster.leader()
            if self._over or second is None or second is first or second.clock is None:
                return
            second.kill(random.random() < 0.5)
            self.cluster.start(first)

        for _ in range(3):
            self._later(0.3 + 5.0 * random.random(), again)

    def _leave_behind(self) -> None:
        """Kill a follower until others have gone on without it, and then all; all start together."""
        behind, cluster = self._held_follower(), self.cluster
        if behind is None:
            return

        def all_at_once() -> None:
            cluster.held.discard(behind.host)
            if not self._over:
                self._kill(cluster.brokers if self.random.random() < 0.5 else [self._leader()], True)
                self._later(0.1, self.mend)

        self._later(self._seconds_to_leave(behind), all_at_once)

    def _held_follower(self) -> MemoryBroker | None:
        """Kill an in-sync follower, which is not started before ``held`` is without it; return it if there is one."""
        state, cluster = self.cluster.checker.state(0), self.cluster
        others = [] if state is None else [number for number in state.in_sync if number != state.leader]
        if not others:
            return None
        behind = cluster.brokers[self.random.choice(others)]
        behind.kill(self.random.random() < 0.5)
        cluster.held.add(behind.host)
        return behind

    def _seconds_to_leave(self, behind: MemoryBroker) -> float:
        """Return the seconds after which others go on without a broker, and some more."""
        return behind.settings.replication.replica_lag_ms / 1000 + 1.0 + 4.0 * self.random.random()

    def _lose_members(self) -> None:
        """Lose those that have everything while a follower is behind: an operator lets it lead, and they come back."""
        behind, cluster, random = self._held_follower(), self.cluster, self.random
        if behind is None:
            return

        def lose() -> None:
            state = cluster.checker.state(0)
            cluster.held.discard(behind.host)
            if self._over or state is None:
                return
            members = [cluster.brokers[number] for number in (*state.in_sync, *state.last)]
            for broker in members:
                if broker is behind:
                    continue
                if random.random() < 0.3:  # it goes on, and some leads for those who reach it
                    self.network.isolate(broker)
                    self.network.lose_tree(broker)
                else:
                    broker.kill(random.random() < 0.5)
                    cluster.held.add(broker.host)
                self.network.expire(broker)
            cluster.start(behind)
            for _ in range(2):
                self._later(1.0 + 5.0 * random.random(), self.operators.elect_unclean)
            self._later(
                5.0 + 5.0 * random.random(), lambda: cluster.held.difference_update({each.host for each in members})
            )

        self._later(self._seconds_to_leave(behind), lose)

    def _stop(self, broker: MemoryBroker) -> None:
        if broker.clock is not None:
            broker.stop().addErrback(lambda failure: failure.trap(LogdError))

    def _pause(self, broker: MemoryBroker) -> None:
        clock = broker.clock
        if clock is not None:
            clock.pause()
            self._later(self.random.choice([1.0, LONGEST_PAUSE]) * self.random.random(), clock.resume)

    def _kill_reader(self) -> None:
        if self.readers:
            self.random.choice(self.readers).kill()

    # Disks

    def _fill(self, broker: MemoryBroker, longest: float) -> None:
        files = broker.files
        files.room = self.random.choice([0, 100, 2000])

        def empty() -> None:
            files.room = None

        self._later(longest * self.random.random(), empty)

    def _replace_disk(self) -> None:
        """Replace a disk by an empty one, if others have what it has."""
        broker = self._some()
        if self.cluster.others_have_all(broker):
            broker.kill(True)
            self.cluster.disks.replace(broker)

    def _give_back_disk(self) -> None:
        broker = self._some()
        if self.cluster.others_have_all(broker):
            broker.kill(True)
            self.cluster.disks.give_back(broker)

    def _rot_leader(self, partition: int) -> None:
        leader = self.cluster.leader(partition)
        if leader is not None:
            self.cluster.rot.make(leader, partition)

    def _spoil(self) -> None:
        """Spoil a file that a broker can make again."""
        broker = self._some()
        if broker.files.room is None and self.cluster.others_have_all(broker):
            broker.kill(self.random.random() < 0.5)
            self.cluster.world.trace.note(broker.host, "spoilt", self.cluster.disks.spoil(broker))
