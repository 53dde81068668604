"""One life of groups of Kafka clients, from a seed: faults of all kinds, and then all must be well.

Faults: members that join, leave, are killed, stand still and start again, also twice under one static name; brokers
that stop, are killed, stand still and lose the tree, so that coordinators move and sessions of the tree end; a tree
that is killed; an operator who removes a claim; lost connections. Clients that are no members commit at any time.

The broker's clock is monotonic, and nothing of a group depends on the time of day: there is no fault that sets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.broker.kafka.groups.group_rights import GroupRefused
from logd.broker.kafka.groups.members import GroupState
from logd.coord import paths
from logd.coord.errors import CoordinationError
from logd.coord.kafka_groups.commit_operations import Committed
from logd.coord.registries.topics import encode_entry
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.tree import MemoryTree
from logd.topic import TopicEntry, TopicPartition
from tests.simulation.kafka_groups.brokers import CALL, SESSION, GroupBroker
from tests.simulation.kafka_groups.calls import Calls, Lost
from tests.simulation.kafka_groups.ledger import GroupLedger, Place, Writer
from tests.simulation.kafka_groups.members import TOPIC, Member, twin_of
from tests.simulation.violation import Violation, check
from tests.simulation.world import World

#: Seconds of faults, and those within which every group must be stable after them.
TROUBLE, SETTLE = 30.0, 40.0
#: Mean seconds between two faults, and of one.
PACE, LENGTH = 1.2, 2.5
#: Timers of a broker that coordinates nothing: those of its session, and what is on the way.
MOST_TIMERS = 12


@define(eq=False)
class GroupSimulation:
    """Two or three brokers, one tree, and one or two groups."""

    world: World
    random: Random = field(init=False)
    tree: MemoryTree = field(init=False)
    calls: Calls = field(init=False)
    ledger: GroupLedger = field(init=False)
    brokers: list[GroupBroker] = field(init=False)
    members: list[Member] = field(factory=list)
    twins: list[Member] = field(factory=list)
    faults: Counter[str] = field(factory=Counter)
    _over: bool = False
    _operator: Any = None

    def __attrs_post_init__(self) -> None:
        world = self.world
        self.random = random = world.random("groups")
        disk = world.disk_delay
        self.tree = MemoryTree(world.clock, world.delay, disk, random=world.random("tree"))
        self.calls = Calls(world, _failed)
        self.ledger = GroupLedger(self._has_members)
        self.brokers = [GroupBroker(world, self.tree, self.calls, number) for number in range(random.choice([2, 2, 3]))]
        for group in ("g", "h")[: random.choice([1, 1, 2])]:
            partitions, count = random.choice([1, 3, 4]), random.choice([1, 2, 3, 4])
            for number in range(count):
                static = f"{group}-static-{number}" if random.random() < 0.4 else ""
                member = Member(
                    world, self.calls, self.ledger, self.brokers, group, f"{group}{number}", partitions, static,
                    random.random() < 0.5,
                )  # fmt: skip
                self.members.append(member)
                if static:
                    self.twins.append(twin_of(member, f"{group}{number}-twin"))

    @property
    def groups(self) -> list[str]:
        """The names of the groups."""
        return sorted({member.group for member in self.members})

    def run(self) -> str:
        """Live; return the digest. Raises Violation."""
        world = self.world
        self.tree.start()
        self._make_topic()
        processes: list[Member | GroupBroker] = [*self.brokers, *self.members]
        for each in processes:
            self._later(3.0, each.start)
        self._later(PACE, self._harm)
        self._later(3.0, self._commit_alone)
        world.run(TROUBLE)
        self._over = True
        self._mend()
        settled = world.run(SETTLE, self._is_settled)
        check(settled, "a group does not become stable", self._picture(), dict(self.faults))
        world.run(2.0)
        self._check_end()
        return world.trace.digest

    def end(self) -> None:
        """Kill all processes."""
        processes: list[Member | GroupBroker] = [*self.members, *self.twins, *self.brokers]
        for each in processes:
            each.kill()
        self.tree.kill()

    def _make_topic(self) -> None:
        client = self.tree.client(ProcessClock(self.world.clock), SESSION, CALL)
        made: list[Any] = []

        async def make() -> None:
            await client.connect()
            entry = encode_entry(TopicEntry("uuid", dict.fromkeys(range(4), (0,))))
            await client.create(paths.topic(TOPIC), entry, makepath=True)
            self._operator = client
            made.append(1)

        self.world.network.graveyard.append((client, Deferred.fromCoroutine(make()).addErrback(_failed)))
        self.world.run(30.0, lambda: bool(made))

    # Faults

    def _harm(self) -> None:
        if self._over:
            return
        random = self.random
        broker, member = random.choice(self.brokers), random.choice(self.members)
        faults: dict[str, Callable[[], Any]] = {
            "kill a broker": lambda: self._for_a_while(broker.kill, LENGTH, broker.start),
            "stop a broker": lambda: self._for_a_while(broker.stop, 2 * LENGTH, broker.start),
            "pause a broker": lambda: self._pause(broker.clock),
            "cut a broker off": lambda: self._for_a_while(
                lambda: broker.reach_tree(False), 4 * LENGTH, broker.reach_tree, True
            ),
            "kill the tree": lambda: self._for_a_while(self.tree.kill, LENGTH, self._start_tree),
            "kill a member": lambda: self._for_a_while(member.kill, 2 * LENGTH, member.start),
            "let a member leave": lambda: self._for_a_while(member.leave, 2 * LENGTH, member.start),
            "pause a member": lambda: self._pause(member.clock),
            "lose a connection": self.calls.lose_one,
            "begin twice": self._begin_twice,
            "remove a claim": lambda: self._operator.delete(paths.group_coordinator(member.group)).addErrback(
                _expected
            ),
            "let all leave": self._let_all_leave,
        }
        weights = [3, 2, 3, 3, 1, 4, 3, 4, 6, 2, 2, 1]
        (name,) = random.choices(list(faults), weights)
        self.faults[name] += 1
        self.world.trace.note("fault", name, f"{broker.number} {member.name}")
        faults[name]()
        self._later(2 * PACE, self._harm)

    def _for_a_while(
        self, fault: Callable[[], None], longest: float, mend: Callable[..., None], *given: object
    ) -> None:
        fault()
        self._later(longest, mend, *given)

    def _let_all_leave(self) -> None:
        for member in self.members:
            self._for_a_while(member.leave, 3 * LENGTH, member.start)

    def _pause(self, clock: ProcessClock | None) -> None:
        if clock is not None and not clock.paused:
            clock.pause()
            self._later(4 * LENGTH, clock.resume)

    def _begin_twice(self) -> None:
        if self.twins:
            twin = self.random.choice(self.twins)
            twin.start()
            self._later(2 * LENGTH, twin.kill)

    def _start_tree(self) -> None:
        if self.tree.clock is None:
            self.tree.start()
            assert self.tree.server is not None
            self.ledger.restored(self.tree.server.tree)

    def _mend(self) -> None:
        """End all faults."""
        self._start_tree()
        for twin in self.twins:
            twin.kill()
        processes: list[Member | GroupBroker] = [*self.brokers, *self.members]
        for each in processes:
            if each.clock is not None:
                each.clock.resume()
            each.start()
        for broker in self.brokers:
            broker.reach_tree(True)
        for group in self.groups:
            members = [member for member in self.members if member.group == group]
            if len(members) > 1 and self.random.random() < 0.4:  # one never comes back
                members[-1].is_retired = True
                members[-1].kill()

    def _commit_alone(self) -> None:
        """Commit as a client that is no member, if the group has no members."""
        if self._over:
            return
        group, broker = self.random.choice(self.groups), self.random.choice(self.brokers)
        position = self.random.randrange(100)
        writer = Writer("alone", -1, "", True)
        place = Place(group, TopicPartition(TOPIC, 0))
        clock = ProcessClock(self.world.clock)

        async def commit() -> None:
            try:
                commits = {place.where: Committed(position, writer.encode())}
                answer = await self.calls.ask(
                    clock, broker.reached, lambda groups, lost: groups.commit(group, commits, "", None, -1), 2.0
                )
            except Lost:
                return
            if not isinstance(answer, GroupRefused) and answer == 0:
                self.ledger.acknowledged(place, position, writer)

        self.world.network.graveyard.append(Deferred.fromCoroutine(commit()).addErrback(_failed))
        self._later(4.0, self._commit_alone)

    def _later(self, longest: float, call: Callable[..., object], *arguments: object) -> None:
        self.world.clock.callLater(longest * self.random.random(), call, *arguments)

    # Conditions at the end

    def _is_settled(self) -> bool:
        """Return whether every group is stable, all members read in one generation, and each has committed there."""
        processes: list[Member | GroupBroker] = [*self.brokers, *self.members]
        for each in processes:
            each.start()  # one that has stopped, was fenced, or has left
        return not any(broker.stopping for broker in self.brokers) and all(map(self._is_stable, self.groups))

    def _is_stable(self, name: str) -> bool:
        members = [member for member in self.members if member.group == name and not member.is_retired]
        holders = [each.coordinator for each in self.brokers if each.coordinator and name in each.coordinator.groups]
        if len(holders) != 1:
            return False
        group = holders[0].groups[name].group
        owned = sorted(where.partition for member in members for where in member.owned)
        return (
            group.state is GroupState.STABLE
            and set(group.roster.members) == {member.member_id for member in members}
            and {member.generation for member in members} == {group.generation}
            and owned == list(range(members[0].partitions))
            and not any(member.is_leaving for member in members)
            and all(member.committed or not member.owned for member in members)
        )

    def _check_end(self) -> None:
        """Check that a group stays stable; then let all leave, and check that nothing of it is left."""
        check(all(map(self._is_stable, self.groups)), "a group does not stay stable", self._picture())
        for broker in self.brokers:
            groups = broker.coordinator
            assert groups is not None
            used = sum(member.size for held in groups.groups.values() for member in held.group.roster)
            check(groups.memory.used == used, "the memory of members is counted wrong", groups.memory.used, used)
        for member in self.members:
            member.is_retired = True
            member.leave()
        left = self.world.run(SETTLE, self._is_empty)
        check(left, "something is left of groups without members", self._picture())

    def _is_empty(self) -> bool:
        server = self.tree.server
        assert server is not None
        claims = [name for name in self.groups if paths.group_coordinator(name) in server.tree.nodes]
        for broker in self.brokers:
            groups, clock = broker.coordinator, broker.clock
            if groups is None or clock is None or groups.groups or groups.memory.used:
                return False
            if len(clock.getDelayedCalls()) > MOST_TIMERS:
                return False
        return not claims and all(member.clock is None for member in self.members)

    def _has_members(self, name: str, broker: int) -> bool:
        """Return whether members of a group have a generation at that broker."""
        groups = self.brokers[broker].coordinator
        held = None if groups is None else groups.groups.get(name)
        return held is not None and held.group.state in (GroupState.COMPLETING, GroupState.STABLE)

    def _picture(self) -> list[object]:
        """Return what is to be seen of the groups."""
        found: list[object] = [
            (member.process, member.member_id, member.generation, member.owned, member.committed)
            for member in self.members
        ]
        for broker in self.brokers:
            if broker.coordinator is not None:
                found += [
                    (broker.number, name, held.group.state, held.group.generation, sorted(held.group.roster.members))
                    for name, held in broker.coordinator.groups.items()
                ]
        return found


def _expected(failure: Failure) -> None:
    """Pass over what the tree answers to an operator."""
    failure.trap(CoordinationError)


def _failed(failure: Failure) -> None:
    """Note a failure that no client is told of."""
    if not failure.check(Violation):
        Violation(f"a process failed: {failure.value!r}\n{failure.getTraceback()}").__cause__ = failure.value


def simulate_groups(seed: int, show: Callable[[str], None] | None = None) -> GroupSimulation:
    """Return a life that has ended well. Raises Violation."""
    world = World(seed, show)
    simulation = GroupSimulation(world)
    with world.unburied(), world.observed(), world.randomness(), simulation.ledger.watching():
        try:
            simulation.run()
        finally:
            simulation.end()
    return simulation
