"""Tests of replicas on a full disk."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from unittest import mock

from twisted.logger import globalLogPublisher

from logd.broker.replication.giving_way import FULL_SECONDS, PAUSES
from logd.broker.replication.leader import LeaderRole
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.errors import LogdError
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFile, MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.broker.rig import Events

#: A message that finds no room where smaller ones do, and the most bytes of those.
LARGE = b"x" * 4000
SMALL_BYTES = 1000
REMOVE = MemoryFiles.remove


class FullDiskTestCase(ReplicaTestCase):
    """Disks that take nothing for a while."""

    def setUp(self) -> None:
        """Send something that may not be lost."""
        super().setUp()
        self.send(b"before")
        self.cluster.advance(1.0)

    def state(self) -> PartitionState:
        """Return the partition's state in the tree."""
        server = self.cluster.tree.server
        assert server is not None
        return PartitionState.decode(bytes(server.tree.nodes[paths.partition_state("t", 0)].data))

    def version(self) -> int:
        """Return the number of times that the partition's state was written."""
        server = self.cluster.tree.server
        assert server is not None
        return server.tree.nodes[paths.partition_state("t", 0)].version

    def go_on_sending(self, seconds: int, payload: bytes) -> None:
        """Let a producer send for some time, whatever comes of it."""
        producer = self.cluster.producer(acks=1)
        for _ in range(seconds):
            producer.send("t", payload).addErrback(lambda failure: failure.trap(LogdError))
            self.cluster.advance(1.0)

    def check_all_is_well(self) -> None:
        """Give all disks room, start all brokers, and check that all have what was acknowledged."""
        for broker in self.cluster.brokers:
            broker.files.room = None
            if not broker.running:
                broker.start()
        self.send(b"in the end")
        self.cluster.advance(12.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        (content,) = self.contents()
        self.assertIn(b"before", content)


class BeginTests(FullDiskTestCase):
    """A replica is chosen that can write neither the epoch file nor the mark."""

    def test_a_leader_begins_once_there_is_room(self) -> None:
        """All disks are full; nothing else happens afterwards."""
        for room in (0, 60):  # the epoch file finds no room; it does, and the mark does not
            former, others = self.leader, self.followers
            for broker in others:
                broker.files.room = room
            former.kill()
            self.cluster.advance(8.0)
            roles = [log.replica for log in self.logs().values() if isinstance(log.replica, LeaderRole)]
            self.assertEqual([role.epoch_start for role in roles], [None])
            self.check_all_is_well()

    def test_another_replica_leads_that_has_room(self) -> None:
        """One that is full may be chosen first; nothing is sent meanwhile that would show it."""
        for room in (0, 60):
            for number in (0, 1):
                former, full = self.leader, self.followers[number]
                full.files.room = room
                former.kill()
                self.cluster.advance(8.0)
                leader = self.leader
                self.assertNotEqual(leader.host, full.host)
                role = self.logs()[leader.host].replica
                assert isinstance(role, LeaderRole)
                self.assertIsNotNone(role.epoch_start)
                self.check_all_is_well()

    def test_the_leadership_is_not_handed_round(self) -> None:
        """Each replica with a full disk is given it once or twice, and then one waits for room."""
        former, others = self.leader, self.followers
        for broker in others:
            broker.files.room = 0
        epoch = self.state().leader_epoch
        former.kill()
        former.files.room = 0
        self.cluster.advance(8.0)
        former.start()
        former.files.room = 0
        self.cluster.advance(PAUSES[0] - 10)
        between = self.state().leader_epoch
        self.assertLess(between - epoch, 7)
        self.cluster.advance(10 * PAUSES[0])
        self.assertLess(self.state().leader_epoch - between, 20)
        self.check_all_is_well()


class FullLeaderTests(FullDiskTestCase):
    """The disk of a leader is full."""

    def test_another_replica_leads(self) -> None:
        """It takes messages some seconds later, and the former leader comes into sync once it has room."""
        former = self.leader
        former.files.room = 0
        begin = self.cluster.clock.seconds()
        self.send(b"after")
        self.assertLess(self.cluster.clock.seconds() - begin, 10.0)
        self.assertNotEqual(self.leader.host, former.host)
        self.assertNotIn(former.settings.id, self.state().in_sync)
        self.check_all_is_well()

    def test_a_moment_without_room_changes_nothing(self) -> None:
        """Retention may have made room again."""
        leader, epoch = self.leader, self.state().leader_epoch
        for _ in range(3):
            leader.files.room = 0
            self.go_on_sending(int(FULL_SECONDS) - 1, b"refused")
            leader.files.room = None
            self.send(b"taken")
        self.assertEqual(self.state().leader_epoch, epoch)

    def test_a_leader_without_others_in_sync_stays(self) -> None:
        """Nobody else has all messages."""
        for broker in self.followers:
            broker.kill()
        self.cluster.advance(12.0)
        leader = self.leader
        leader.files.room = 0
        state = self.state()
        self.go_on_sending(20, b"refused")
        self.assertEqual(self.state(), state)
        self.check_all_is_well()

    def test_a_leader_stays_that_is_needed_for_the_minimum(self) -> None:
        """Its successor would take no messages either, and show none."""
        self.cluster.wait(self.admin.alter("t", settings={"min.insync.replicas": "3"}))
        state = self.state()
        self.leader.files.room = 0
        self.go_on_sending(8, b"refused")
        self.assertEqual(self.state().leader, state.leader)
        self.check_all_is_well()

    def test_full_disks_do_not_hand_it_round(self) -> None:
        """All of them have room for marks, and none for messages: each is tried, and again after longer and longer."""
        append = MemoryFile.append

        def refuse_large(file: MemoryFile, buffers: Sequence[bytes | memoryview]) -> int:
            if sum(map(len, buffers)) > SMALL_BYTES and ".log" in file.path:
                raise OSError(errno.ENOSPC, "no space left on device")
            return append(file, buffers)

        epochs = [self.state().leader_epoch]
        with mock.patch.object(MemoryFile, "append", refuse_large):
            for _ in range(3):
                self.go_on_sending(120, LARGE)
                epochs.append(self.state().leader_epoch)
        first, second, third = (after - before for before, after in pairwise(epochs))
        self.assertLess(first, 20)
        self.assertLess(second, 10)
        self.assertLess(third, 10)
        self.check_all_is_well()


class FullFollowerTests(FullDiskTestCase):
    """The disk of a follower is full."""

    def fall_behind(self) -> MemoryBroker:
        """Return a follower with a full disk, behind whose log its leader's begins by now."""
        leader, follower = self.leader, self.followers[0]
        self.cluster.network.block(leader.host, follower.host)
        for _ in range(3):
            self.send(b"x" * 200)
        self.assertNotIn(follower.settings.id, self.state().in_sync)
        log, store = self.logs()[leader.host], leader.store
        assert store is not None
        store.delete_before(log, log.visible_end, lambda error: None)
        follower.files.room = 0
        self.cluster.network.heal()
        return follower

    def fill_again(self, follower: MemoryBroker) -> None:
        """Let somebody else have the room of all that is removed."""

        def remove(files: MemoryFiles, path: str) -> None:
            REMOVE(files, path)
            if files is follower.files and files.room is not None:
                files.room = 0

        self.patch(MemoryFiles, "remove", remove)

    def test_its_former_log_makes_room_for_the_new_one(self) -> None:
        """Nobody else would remove that: retention leaves a log alone that is offline."""
        leader, follower = self.leader, self.fall_behind()
        log = self.logs()[leader.host]
        self.cluster.advance(15.0)
        self.assertEqual((self.in_sync(), self.logs()[follower.host].start), ((0, 1, 2), log.start))

    def test_neither_the_tree_nor_the_log_is_written_each_second_meanwhile(self) -> None:
        """Each attempt writes the partition's state; a broker may have thousands of such replicas."""
        follower = self.fall_behind()
        self.fill_again(follower)
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.cluster.advance(10.0)
        before = self.version()
        self.cluster.advance(60.0)
        self.assertNotIn(follower.settings.id, self.state().in_sync)
        attempts = self.version() - before
        self.assertTrue(5 <= attempts <= 12, attempts)
        self.assertEqual(len(events.warnings("t-0 cannot take its role in replication yet: [Errno 28]")), 2)

    def test_a_follower_that_has_to_begin_again(self) -> None:
        """Its leader's log begins behind its own one by now. It begins again once there is room, whoever leads then."""
        leader, follower = self.leader, self.fall_behind()
        log = self.logs()[leader.host]
        self.fill_again(follower)
        self.cluster.advance(15.0)
        self.assertNotIn(follower.settings.id, self.state().in_sync)
        leader.kill()
        self.cluster.advance(8.0)
        follower.files.room = None
        leader.start()
        self.cluster.advance(10.0)
        self.assertEqual((self.in_sync(), self.logs()[follower.host].start), ((0, 1, 2), log.start))
