"""Tests of replicas whose logs have lost what was flushed: none is emptied while others may count on it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.replication.follower import NOTHING_HERE, FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_owner import IdleRole
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.coord.records import SetData
from logd.errors import InvalidRequest
from logd.log.disk.names import segment_start
from logd.log.epochs.history import NO_EPOCH
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_log_replacement import JUMP
from logd.log.store.log_store import LogStore
from logd.protocol.requests.repair import LOST_LOG, OFFLINE, SERVED_AGAIN, Repair, RepairResponse
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetchV1, ReplicaPart, ReplicaProgress
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.simulation.replication.contents import bytes_of

#: The partition's folder.
FOLDER = "/data/t-0"


class LostReplicaTestCase(ReplicaTestCase):
    """A partition of three replicas, of which one is gone; what becomes of ``lossy``, another one."""

    def setUp(self) -> None:
        """Send something that may not be lost."""
        super().setUp()
        self.sent = self.send(b"before")
        self.first, (self.gone, self.lossy) = self.leader, self.followers
        self.gone.kill()
        self.cluster.advance(3.0)

    def state(self) -> PartitionState:
        """Return the partition's state as it stands in the tree."""
        server = self.cluster.tree.server
        assert server is not None
        return PartitionState.decode(bytes(server.tree.nodes[paths.partition_state("t", 0)].data))

    @property
    def is_in_sync(self) -> bool:
        """True while the tree counts on the lossy replica."""
        return self.lossy.settings.id in self.state().in_sync

    def advance_until(self, happened: Callable[[], bool], seconds: float = 10.0) -> None:
        """Let time pass, a little at a time, until something has happened."""
        end = self.cluster.clock.seconds() + seconds
        while not happened():
            self.assertLess(self.cluster.clock.seconds(), end, "it does not happen")
            self.cluster.advance(0.0005)

    def hold_changes(self, broker: MemoryBroker) -> list[Callable[[], None]]:
        """Hold the changes of states that a broker asks the tree for; return what lets each of them go on."""
        tree, held = broker.coordination, list[Callable[[], None]]()
        assert tree is not None
        multi = tree.multi

        def holding(operations: Any, timeout: float | None = None) -> Deferred[Any]:
            if not any(isinstance(each, SetData) and each.path.endswith("/state") for each in operations):
                return multi(operations, timeout)
            waiting: Deferred[Any] = Deferred()
            waiting.addCallback(lambda _: multi(operations, timeout))
            held.append(lambda: waiting.callback(None))
            return waiting

        tree.multi = holding  # type: ignore[method-assign]
        return held

    def remove_segments(self, broker: MemoryBroker) -> None:
        """Remove a dead broker's messages from its disk."""
        for name in broker.files.list(FOLDER):
            if segment_start(name) is not None:
                broker.files.remove(f"{FOLDER}/{name}")
        broker.files.sync_directory(FOLDER)

    def check_nothing_is_lost(self) -> None:
        """Let the leader lose its power for a while, and check what is left when it is back."""
        self.first.kill(power_lost=True)
        self.cluster.advance(8.0)
        self.cluster.network.heal()
        self.first.start()
        self.cluster.advance(8.0)
        self.assertIn(b"before", self.content(self.leader))
        self.gone.start()
        self.cluster.advance(8.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def content(self, broker: MemoryBroker) -> bytes:
        """Return the log of a broker."""
        log = self.logs()[broker.host]
        return bytes_of(broker, log, log.start, log.end)


class AddedMeanwhileTests(LostReplicaTestCase):
    """The leader is about to add a replica to the in-sync set, which is back with files that are missing."""

    def setUp(self) -> None:
        """Let the change of the in-sync set stay under way until it is let go."""
        super().setUp()
        self.lossy.kill()
        self.advance_until(lambda: not self.is_in_sync)
        self.held = self.hold_changes(self.first)
        self.lossy.start()
        self.advance_until(lambda: bool(self.held))
        self.lossy.kill()
        self.remove_segments(self.lossy)

    def is_served(self) -> bool:
        """Return whether the lossy replica has a log that is served."""
        log = self.logs().get(self.lossy.host)
        return log is not None and log.offline is None

    def let_go(self) -> None:
        """Let the change take its course."""
        for each in self.held:
            each()
        self.cluster.advance(0.01)

    def test_a_leader_that_it_does_not_reach(self) -> None:
        """Its files stay until the leader has said that it counts on nothing there."""
        self.cluster.network.block(self.first.host, self.lossy.host)
        self.lossy.start()
        self.cluster.advance(2.0)
        self.let_go()
        self.assertTrue(self.is_in_sync)
        self.check_nothing_is_lost()

    def test_a_leader_that_it_reaches(self) -> None:
        """The change comes too late once the log has begun again, as the state was written meanwhile."""
        self.lossy.start()
        self.advance_until(self.is_served)
        self.assertLess(self.logs()[self.lossy.host].end, self.sent.next_position)
        self.let_go()
        self.assertFalse(self.is_in_sync)
        self.check_nothing_is_lost()


class UncomparedTests(LostReplicaTestCase):
    """A broker that is back knows the state of the partition before the tree has said how much it had stored."""

    def hold_comparison(self, broker: MemoryBroker) -> Callable[[], None]:
        """Hold the reads of a broker's stored ends, as it starts; return what lets them go on."""
        tree, going = broker.coordination, Deferred[None]()
        assert tree is not None
        get, waiting = tree.get, list[Deferred[None]]()

        def holding(path: str, timeout: float | None = None) -> Deferred[Any]:
            if not path.startswith(paths.STORED) or going.called:
                return get(path, timeout)
            read: Deferred[Any] = Deferred()
            read.addCallback(lambda _: get(path, timeout))
            waiting.append(read)
            return read

        def let_go() -> None:
            going.callback(None)
            for read in waiting:
                read.callback(None)

        tree.get = holding  # type: ignore[method-assign]
        return let_go

    def role(self, broker: MemoryBroker) -> type[object]:
        """Return the kind of role that the log of a broker has."""
        return type(self.logs()[broker.host].replica)

    def test_it_does_not_follow_yet(self) -> None:
        """The leader would add it to the in-sync set, and the comparison might take its log for a lost one then."""
        self.lossy.kill()
        self.advance_until(lambda: not self.is_in_sync)
        self.lossy.start()
        let_go = self.hold_comparison(self.lossy)
        self.cluster.advance(2.0)
        self.assertEqual((self.role(self.lossy), self.is_in_sync), (IdleRole, False))
        let_go()
        self.cluster.advance(1.0)
        self.assertEqual((self.role(self.lossy), self.is_in_sync), (FollowerRole, True))

    def test_it_does_not_lead_yet(self) -> None:
        """Its disk is that of yesterday: if it led, the others could not follow, and messages would be lost."""
        self.first.kill()
        disk = deepcopy(self.first.files.root)
        self.first.start()
        self.cluster.advance(1.0)
        sent = self.send(b"since")
        self.cluster.advance(70.0)  # the tree is told how far the log has grown
        self.first.kill()
        self.first.files.root = disk
        self.first.start()
        let_go = self.hold_comparison(self.first)
        self.cluster.advance(1.0)
        self.assertEqual(self.role(self.first), IdleRole)
        let_go()
        self.cluster.advance(8.0)
        self.gone.start()
        self.cluster.advance(8.0)
        self.assertIs(self.leader, self.lossy)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        self.assertGreaterEqual(self.logs()[self.first.host].visible_end, sent.next_position)


class BeginAgainTests(LostReplicaTestCase):
    """A replica that is back with files that are missing, and counts no more."""

    def setUp(self) -> None:
        """Lose the files, and count how often the log begins again."""
        super().setUp()
        self.lossy.kill()
        self.advance_until(lambda: not self.is_in_sync)
        self.remove_segments(self.lossy)
        self.restarts, restart = list[int](), LogStore.restart

        def counting(store: LogStore, log: PartitionLog, position: int, done: Any) -> None:
            self.restarts.append(position)
            restart(store, log, position, done)

        self.patch(LogStore, "restart", counting)

    def test_on_a_slow_disk_it_begins_again_once(self) -> None:
        """Asked again meanwhile, it would be emptied with what it has copied, and has told its leader of."""
        self.lossy.disk_delay = lambda: 1.5
        self.lossy.start()
        self.cluster.advance(30.0)
        self.assertEqual((self.restarts, self.is_in_sync), ([0], True))


class LateReportTests(LostReplicaTestCase):
    """A follower's connection of an earlier life, which is not known to be lost yet."""

    def test_what_was_flushed_before_counts_no_more(self) -> None:
        """A report that comes late there was sent before the follower has said that nothing is left."""
        log, role = self.logs()[self.first.host], self.logs()[self.first.host].replica
        assert isinstance(role, LeaderRole) and self.lossy.store is not None
        me, instance = self.lossy.settings.id, self.lossy.store.instance
        assert me is not None
        self.lossy.kill()
        earlier, later = [self.cluster.wait(self.cluster.connect(self.first.address)) for _ in range(2)]

        def fetch(connection: Any, position: int, flushed: int) -> None:
            part = ReplicaPart(
                "t", 0, role.epoch, position, role.epoch if flushed else NO_EPOCH, flushed, role.state.uuid
            )
            self.cluster.wait(connection.request(ReplicaFetchV1(me, instance, 0, 1_000, (part,))))

        fetch(earlier, log.end, log.end)
        self.assertEqual(role.followers[me].flushed, log.end)
        fetch(later, NOTHING_HERE, 0)
        self.assertEqual(role.followers[me].flushed, 0)
        earlier.send_only(ReplicaProgress((FlushedPart("t", 0, role.epoch, log.end),)))
        fetch(earlier, log.end, log.end)
        self.assertEqual(role.followers[me].flushed, 0)
        earlier.abort()
        later.abort()


class AllLostTests(ReplicaTestCase):
    """A partition of three replicas whose brokers lose their disks, and are back with empty ones."""

    def setUp(self) -> None:
        """Send something, and remember the disks."""
        super().setUp()
        self.send(b"before")
        self.cluster.advance(3.0)  # the stored ends are written
        self.disks = {broker.host: broker.files for broker in self.cluster.brokers}

    def lose(self, *brokers: MemoryBroker) -> None:
        """Kill brokers at one moment, and start them with empty disks."""
        for broker in brokers:
            broker.kill()
        self.cluster.advance(8.0)
        for broker in brokers:
            broker.files = MemoryFiles(now=self.cluster.clock.seconds)
            broker.start()
        self.cluster.advance(8.0)

    def repair(self, broker: MemoryBroker, accept_at: int | None = None) -> RepairResponse:
        """Ask for a dry run, or accept the loss that it has shown."""
        connection = self.cluster.wait(self.cluster.connect(broker.address))
        asked = Repair("t", 0) if accept_at is None else Repair("t", 0, False, False, accept_at, True)
        answer: RepairResponse = self.cluster.wait(connection.request(asked))
        connection.abort()
        return answer

    async def dry_run(self) -> list[RepairResponse]:
        """Return what the command shows, which asks the first broker where nobody leads."""
        return [each async for each in self.admin.repair_log("t", 0)]

    def elect(self) -> None:
        """Have the replica with the most lead, whatever is lost."""
        self.cluster.wait(self.admin.elect("t", {0: -1}, unclean=True))
        self.cluster.advance(10.0)

    def test_the_partition_begins_again_behind_all_ids(self) -> None:
        """Nothing is changed without a person's word; then any replica may lead, and the others follow it."""
        first, *others = self.cluster.brokers
        self.lose(first, *others)
        self.elect()
        self.assertEqual([log.replica.__class__ for log in self.logs().values()], [IdleRole] * 3)
        (shown,) = self.cluster.wait(self.dry_run())
        self.assertEqual((shown.error, shown.state, shown.described[0].kind, shown.end), (0, OFFLINE, LOST_LOG, JUMP))
        self.assertIn("`logd elect t --unclean` lets this one lead then", shown.described[0].text)
        self.assertEqual(self.repair(first, JUMP + 1).state, OFFLINE)  # another loss than the one that was shown
        self.assertEqual(self.repair(first, shown.end).state, SERVED_AGAIN)
        self.elect()
        self.assertIs(self.leader, first)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        self.assertGreaterEqual(self.send(b"after").first_id, JUMP)

    def test_a_replica_that_may_be_back_with_its_log(self) -> None:
        """While it is away there is no way to begin again, and when it is back it leads, without a loss."""
        first, second, third = self.cluster.brokers
        third.kill()
        self.cluster.advance(3.0)
        self.lose(first, second)
        answer = self.repair(first)
        self.assertEqual(answer.error, InvalidRequest.code)
        self.assertIn("broker 2 is not live, and may have a log of it", answer.text)
        third.start()
        self.cluster.advance(8.0)
        self.assertIn("broker 2 has a log of it", self.repair(first).text)

    def test_a_disk_that_is_back_after_the_loss_was_accepted(self) -> None:
        """While nobody was let lead, nothing is lost: the replica leads, and the one that began again follows it."""
        first, second, third = self.cluster.brokers
        self.lose(first, second, third)
        self.assertEqual(self.repair(first, JUMP).state, SERVED_AGAIN)
        third.kill()
        self.cluster.advance(8.0)
        third.files = self.disks[third.host]
        third.start()
        self.cluster.advance(10.0)
        self.assertIs(self.leader, third)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        log = self.logs()[first.host]
        self.assertIn(b"before", bytes_of(first, log, log.start, log.end))

    def test_a_disk_that_is_back_after_the_election(self) -> None:
        """Its messages were given up: it follows from where the log began again, and no id is there twice."""
        first, second, third = self.cluster.brokers
        self.lose(first, second, third)
        self.repair(first, JUMP)
        self.elect()
        third.kill()
        after = self.send(b"after")
        third.files = self.disks[third.host]
        third.start()
        self.cluster.advance(10.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        self.assertGreaterEqual(min(log.start for log in self.logs().values()), JUMP)
        self.assertGreaterEqual(after.first_id, JUMP)

    def test_a_replica_that_has_a_leader(self) -> None:
        """It is copied anew from it, and nothing is to be given up."""
        leader, (follower, _) = self.leader, self.followers
        self.cluster.network.block(leader.host, follower.host)
        self.lose(follower)
        answer = self.repair(follower)
        self.assertEqual(answer.error, InvalidRequest.code)
        self.assertIn("t-0 is not repaired here, as it is copied anew from its leader", answer.text)
