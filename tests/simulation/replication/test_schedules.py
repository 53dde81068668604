"""Named schedules: what befalls a simulated cluster in a given order, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.partition_state import PartitionState
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.disk import PowerLoss
from tests.frozen_objects import freeze_others
from tests.simulation.replication.life import Life, live


class ScheduleTests(SynchronousTestCase):
    """Each begins with a cluster that is well, and ends with the checks of every life."""

    timeout = 24 * 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)

    def live(self, schedule: Callable[[Life], None], seed: int = 1) -> None:
        """Run a schedule; its faults are mended in the end."""

        def run(life: Life) -> None:
            life.begin()
            life.go_on(2.0)
            schedule(life)
            life.settle()

        live(seed, run=run)
        self.flushLoggedErrors(PowerLoss)

    def leave_behind(self, life: Life) -> tuple[MemoryBroker, PartitionState]:
        """Kill an in-sync follower until it is in sync no more; return it, and the state then."""
        cluster = life.cluster
        state = cluster.checker.state(0)
        assert state is not None
        behind = cluster.brokers[next(number for number in state.in_sync if number != state.leader)]
        behind.kill()
        life.go_on(10.0)
        members = cluster.checker.state(0)
        assert members is not None and behind.settings.id not in members.in_sync
        return behind, members

    def test_two_failovers_within_a_round_trip(self) -> None:
        """The successor dies as soon as it leads; what only it has is truncated, and what is acknowledged stays."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            first = cluster.leader()
            assert first is not None
            first.kill(power_lost=True)
            life.go_on(20.0, lambda: cluster.leader() not in (None, first) and cluster.leading_log(0) is not None)
            second = cluster.leader()
            assert second is not None
            second.kill(power_lost=True)
            cluster.start(first)
            life.go_on(3.0)

        self.live(schedule)

    def test_all_lose_power_while_one_is_behind(self) -> None:
        """The new leader does not know the true visible end: it takes nobody into the in-sync set before it does."""

        def schedule(life: Life) -> None:
            for _ in range(3):
                life.faults.make("replica left behind")
                life.go_on(10.0)

        self.live(schedule)

    def test_a_leader_without_the_tree_and_a_reader_with_old_metadata(self) -> None:
        """The deposed leader goes on to serve those who still know it; nobody is shown less than before."""

        def schedule(life: Life) -> None:
            for _ in range(2):
                life.faults.make("leader without the tree")
                life.go_on(12.0)
                life.faults.mend()
                life.go_on(3.0)

        self.live(schedule)

    def test_a_leader_alone_that_leads_again_with_a_slow_disk(self) -> None:
        """The leader gives readers all that was flushed once its mark is appended, before that is flushed."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            leader, former = cluster.leader(), cluster.checker.state(0)
            assert leader is not None and former is not None
            self.assertEqual(cluster.least, 1)
            life.faults.network.isolate(leader)
            life.go_on(10.0)
            cluster.disks.slow_down(leader.host, 20.0)
            life.go_on(1.0)
            life.faults.network.expire(leader)
            shown = list[tuple[int, int]]()

            def leads_again() -> bool:
                state, log = cluster.checker.state(0), cluster.leading_log(0)
                if state is None or log is None or state.leader_epoch == former.leader_epoch:
                    return False
                shown.append((log.visible_end, len(cluster.checker.record(0).shown)))
                return True

            self.assertTrue(life.go_on(15.0, leads_again))
            self.assertEqual(*shown[0])

        self.live(schedule)

    def test_a_leader_that_stood_still_answers_readers_that_begin(self) -> None:
        """It has heard of no successor yet, and lacks what readers have seen of that one: they do not go back."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            leader = cluster.leader()
            assert leader is not None and leader.clock is not None
            leader.clock.pause()
            life.go_on(12.0, lambda: cluster.leader() not in (None, leader) and cluster.leading_log(0) is not None)
            life.go_on(3.0)
            others = [broker.clock for broker in cluster.brokers if broker is not leader and broker.clock is not None]
            for clock in others:
                clock.pause()
            for reader in life.readers:
                reader.kill()
                reader.start()
            life.go_on(1.5)
            leader.clock.resume()
            life.go_on(0.005)
            for clock in others:
                clock.resume()
            life.go_on(3.0)

        for seed in (8, 19):
            self.live(schedule, seed)

    def test_an_empty_disk_in_place_of_the_leaders(self) -> None:
        """The broker with that disk is in no in-sync set, whatever the state says of its number."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            leader = cluster.leader()
            assert leader is not None
            leader.kill(power_lost=True)
            cluster.disks.replace(leader)
            cluster.start(leader)
            life.go_on(10.0)

        self.live(schedule)

    def test_a_disk_that_is_full_and_the_next_one_too(self) -> None:
        """The leader's disk fills, then its successor's; each gives way, and follows again once it has room."""

        def schedule(life: Life) -> None:
            cluster, full = life.cluster, list[MemoryBroker]()
            for _ in range(2):
                leader, state = cluster.leader(), cluster.checker.state(0)
                assert leader is not None and state is not None
                leader.files.room = 100
                full.append(leader)
                moved = life.go_on(25.0, lambda: cluster.leader() not in (None, *full))
                self.assertEqual(moved, len(state.in_sync) > cluster.least, cluster.checker.state(0))
            for broker in full:
                broker.files.room = None
            life.go_on(10.0)

        for seed in range(1, 4):
            self.live(schedule, seed)

    def test_an_unclean_election_beside_members_that_live(self) -> None:
        """They reach neither the tree nor others meanwhile; what readers saw of them is lost, and they follow then."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            behind, members = self.leave_behind(life)
            for number in (*members.in_sync, *members.last):
                if number != behind.settings.id:
                    life.faults.network.isolate(cluster.brokers[number])
                    life.faults.network.lose_tree(cluster.brokers[number])
            cluster.start(behind)
            life.go_on(10.0)
            life.faults.operators.elect_unclean()
            life.go_on(10.0)
            elected = cluster.checker.state(0)
            assert elected is not None
            if behind.settings.id not in members.last:
                self.assertEqual(elected.leader, behind.settings.id)

        for seed in range(1, 4):
            self.live(schedule, seed)

    def test_an_unclean_election(self) -> None:
        """Nobody leads while all members are gone; once an operator asks, a replica that lacks messages does."""

        def schedule(life: Life) -> None:
            cluster = life.cluster
            behind, members = self.leave_behind(life)
            cluster.held.update(broker.host for broker in cluster.brokers)
            for number in (*members.in_sync, *members.last):
                if number != behind.settings.id:
                    cluster.brokers[number].kill(power_lost=True)
            cluster.held.discard(behind.host)
            cluster.start(behind)
            life.go_on(10.0)
            former = cluster.checker.state(0)
            assert former is not None
            self.assertNotEqual(former.leader, behind.settings.id)
            life.faults.operators.elect_unclean()
            life.go_on(10.0)
            elected = cluster.checker.state(0)
            assert elected is not None
            if behind.settings.id not in former.last:
                self.assertEqual(elected.leader, behind.settings.id)

        self.live(schedule)
