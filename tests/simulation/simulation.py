"""One life of a whole cluster, from a seed: it runs with faults, they are repaired, and then all must be well."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from attrs import define, field, frozen

from logd.coord import paths
from logd.coord.groups import claims as holdings
from logd.coord.groups.records import Phase
from tests.simulation.actors.members import Member
from tests.simulation.actors.reading_disks import transfers_watched
from tests.simulation.cluster import LATE_TOPIC, TOPICS, SimulatedCluster
from tests.simulation.faults import Faults
from tests.simulation.flushing import flushes_watched
from tests.simulation.formats import formats_watched
from tests.simulation.ledger import Place
from tests.simulation.peers import closes_watched
from tests.simulation.retention import payloads_of, told_of_retention
from tests.simulation.violation import check
from tests.simulation.world import World

#: Seconds of faults, and seconds within which all must be well after them.
TROUBLE_SECONDS = 25.0
SETTLE_SECONDS = 120.0
#: Rebalances and conflicts that one member may have after the last fault until its group is settled: a member that
#: waits for sixteen partitions, released one by one, has a conflict for each; an operator's work adds one round.
MOST_ATTEMPTS = 60
#: Seconds after which every sent byte has arrived: the longest delay of the slowest network is 0.8 s.
IN_FLIGHT_SECONDS = 1.0
#: Seconds for which a settled group must not move again.
QUIET_SECONDS = 3.0


@frozen
class Report:
    """The account of one seed."""

    digest: str
    messages: int
    acknowledged: int
    duplicates: int
    commits: int
    rebalances: int
    conflicts: int
    faults: dict[str, int]
    events: int
    #: Seconds from the last fault until all was well, and the most attempts of a member meanwhile.
    settled_after: float
    attempts: int


def simulate(seed: int, show: Callable[[str], None] | None = None) -> Report:
    """Run a seed. Raises Violation."""
    world = World(seed, show)
    # Transactions of few partitions: claims and commits of a share take several, and can be stopped half-way.
    chunk = mock.patch.object(holdings, "CHUNK", world.random("chunk").choice([1, 3, 100]))
    with world.randomness(), world.observed(), chunk, world.unburied():
        simulation = Simulation(SimulatedCluster(world))
        try:
            return simulation.run()
        finally:
            simulation.end()
            del simulation


@define(eq=False)
class Simulation:
    """The course of one life."""

    cluster: SimulatedCluster
    faults: Faults = field(init=False)
    _resting_since: float | None = field(default=None, init=False)

    def run(self) -> Report:
        """See ``simulate``."""
        cluster, world = self.cluster, self.cluster.world
        self.faults = Faults(world, cluster)
        retention = told_of_retention(cluster.brokers, cluster.ledger)
        with retention, flushes_watched(), transfers_watched(), formats_watched(), closes_watched():
            return self._live()

    def _live(self) -> Report:
        cluster, world = self.cluster, self.cluster.world
        cluster.start()
        self.faults.begin()
        world.run(TROUBLE_SECONDS)
        self.faults.end()
        begin = world.clock.seconds()
        attempts = {member.host: self._attempts(member) for member in cluster.members if member.clock is not None}
        world.run(1.0)
        if not world.run(SETTLE_SECONDS, self._is_settled):
            self._say_what_is_wrong()
        settled_after = world.clock.seconds() - begin
        most = max(self._attempts(member) - attempts.get(member.host, 0) for member in cluster.members)
        check(most <= MOST_ATTEMPTS, "a member needed too many attempts to settle", most)
        before = [self._attempts(member) for member in cluster.members]
        world.run(QUIET_SECONDS)
        check(before == [self._attempts(member) for member in cluster.members], "a settled group rebalanced again")
        check(self._is_well(), "a settled cluster is not settled any more")
        ledger = cluster.ledger
        ledger.check_logs(self._logs())
        for group, members in cluster.groups.items():
            ledger.check_reported(
                group, sum(member.losses.jumps for member in members), sum(member.losses.gaps for member in members)
            )
        self._check_topics()
        for consumer in cluster.consumers:
            ledger.check_reported(consumer.host, consumer.losses.jumps, consumer.losses.gaps)
        counts = [
            member.consumer.group.counts for member in cluster.members if member.consumer and member.consumer.group
        ]
        return Report(
            world.trace.digest,
            len(ledger.sent),
            len(ledger.acknowledged),
            ledger.duplicates,
            ledger.commits,
            sum(each.rebalances for each in counts),
            sum(each.conflicts for each in counts),
            self.faults.made,
            world.clock.events,
            settled_after,
            most,
        )

    def end(self) -> None:
        """Kill all processes."""
        cluster = self.cluster
        for process in reversed(cluster.processes):
            process.kill()
        cluster.world.network.graveyard.append(cluster.tree)

    def _is_settled(self) -> bool:
        """Return True when all is well and no member has news to look at, nor will get any.

        News on their way to a member (that a broker has come back, say) arrive within IN_FLIGHT_SECONDS.
        """
        now = self.cluster.world.clock.seconds()
        if not self._rests():
            self._resting_since = None
        elif self._resting_since is None:
            self._resting_since = now
        return self._resting_since is not None and now - self._resting_since >= IN_FLIGHT_SECONDS

    def _rests(self) -> bool:
        groups = [member.consumer.group for member in self.cluster.members if member.consumer is not None]
        resting = all(group is not None and group._membership._sleep.can_be_woken for group in groups)
        return resting and not self.faults.closing and self._is_well()

    def _is_well(self) -> bool:
        """Return True when each process, group and message is where it must be in the end."""
        cluster = self.cluster
        if not cluster.all_running or not all(producer.finished for producer in cluster.producers):
            return False
        if not all(client.finished for client in cluster.kafka):
            return False
        if cluster.operator.under_way or cluster.acceptor.under_way:
            return False
        server = cluster.tree.server
        assert server is not None
        if set(server.tree.sessions) != {client.session_id for client in cluster.tree.clients}:
            return False  # sessions of dead clients are left
        for member in cluster.members:
            assert member.consumer is not None and member.consumer.group is not None
            if member.consumer.group.phase is not Phase.STEADY:
                return False
        ledger = cluster.ledger
        if any(ledger.missing(group) for group in cluster.groups):
            return False
        if any(ledger.missing(consumer.host, frozenset(TOPICS)) for consumer in cluster.consumers):
            return False
        if any(ledger.missing(client.host, frozenset(TOPICS)) for client in cluster.kafka):
            return False
        return not self._unregistered() and not self._without_owner()

    def _unregistered(self) -> list[str]:
        """Return the brokers and members whose entry is missing in the tree, or is another session's."""
        server = self.cluster.tree.server
        assert server is not None
        wrong = []
        for broker in self.cluster.brokers:
            assert broker.coordination is not None and broker.settings.id is not None
            node = server.tree.nodes.get(paths.broker(broker.settings.id))
            if node is None or node.ephemeral_owner != broker.coordination.session_id:
                wrong.append(broker.host)
        for member in self.cluster.members:
            assert member.consumer is not None and member.consumer.group is not None
            assert member.coordination is not None
            node = server.tree.nodes.get(paths.group_consumer(member.group, member.consumer.group.consumer))
            if node is None or node.ephemeral_owner != member.coordination.session_id:
                wrong.append(member.host)
        return wrong

    def _without_owner(self) -> list[str]:
        """Return the partitions whose owner in the tree is not a living member that delivers them."""
        cluster = self.cluster
        server = cluster.tree.server
        assert server is not None
        nodes = server.tree.nodes
        wrong = []
        for group, members in cluster.groups.items():
            has: dict[Place, int] = {}
            for member in members:
                assert member.consumer is not None and member.consumer.group is not None
                assert member.coordination is not None
                for where in member.consumer.group.partitions:
                    if (where.topic, where.partition) in has:
                        wrong.append(f"{group} {where} is delivered by two")
                    has[where.topic, where.partition] = member.coordination.session_id
            for topic in (*TOPICS, LATE_TOPIC):
                if paths.topic(topic) not in nodes:
                    continue
                for partition in range(cluster.partitions):
                    owner = cluster.overseer.owner(group, topic, partition)
                    if owner <= 0 or has.get((topic, partition)) != owner:
                        wrong.append(f"{group} {topic}/{partition}: {owner:x}, {has.get((topic, partition))}")
        return wrong

    def _say_what_is_wrong(self) -> None:
        cluster = self.cluster
        check(cluster.all_running, "a process does not run")
        for producer in cluster.producers:
            check(producer.finished, "a producer never finished", producer.host, producer.sent, producer.unanswered)
        for client in cluster.kafka:
            check(client.finished, "a client of Kafka never finished", client.host, client.sent, client.unanswered)
        check(not cluster.acceptor.under_way, "a loss was never accepted", cluster.acceptor.under_way)
        check(not cluster.operator.under_way, "the operator never came to an end", cluster.operator.under_way)
        for member in cluster.members:
            assert member.consumer is not None and member.consumer.group is not None
            phase, counts = member.consumer.group.phase, member.consumer.group.counts
            check(phase is Phase.STEADY, "a member never settled", member.host, phase, counts)
        unregistered = self._unregistered()
        check(not unregistered, "a process is not registered in the tree", *unregistered)
        wrong = self._without_owner()
        check(not wrong, "partitions without an owner", *wrong)
        for group in cluster.groups:
            cluster.ledger.check_complete(group)
        for host in [*(each.host for each in cluster.consumers), *(each.host for each in cluster.kafka)]:
            cluster.ledger.check_complete(host, frozenset(TOPICS))
        check(False, "the cluster did not settle in time, though nothing is wrong with it now")

    def _check_topics(self) -> None:
        """Check that no broker has logs of BAD_NODES: of no topic, or of a topic on two brokers."""
        for broker in self.cluster.brokers:
            assert broker.store is not None
            foreign = {log.topic for log in broker.store.logs()}.difference((*TOPICS, LATE_TOPIC))
            check(not foreign, "a broker serves a topic that it must refuse", broker.host, foreign)

    def _attempts(self, member: Member) -> int:
        if member.consumer is None or member.consumer.group is None:
            return 0
        counts = member.consumer.group.counts
        return counts.rebalances + counts.conflicts

    def _logs(self) -> dict[Place, list[bytes]]:
        """Return the payloads in each partition, by the brokers' files."""
        found: dict[Place, list[bytes]] = {}
        for broker in self.cluster.brokers:
            assert broker.store is not None
            for log in broker.store.logs():
                check(
                    (log.topic, log.partition) not in found,
                    "two brokers store the same partition",
                    log.topic,
                    log.partition,
                )
                found[log.topic, log.partition] = payloads_of(broker, log)
        return found
