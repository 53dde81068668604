"""Tests of damaged replicas that are healed with the bytes of others, on three brokers in memory."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.replication.healing.healing import Healing
from logd.broker.replication.healing.read_requests import ReplicaReads
from logd.broker.replication.leader import LeaderRole
from logd.log.partition import PartitionLog
from logd.protocol.requests.replicas.replica_read import ReplicaReadV1
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.disk import Inode
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase


class DamagedReplicaTestCase(ReplicaTestCase):
    """Three brokers with segments of a few messages, which are verified each second."""

    segment_bytes = 300
    more = {"verify_ms": 1_000}  # noqa: RUF012

    def setUp(self) -> None:
        """Send messages that fill several segments."""
        super().setUp()
        for number in range(20):
            self.send(b"message %02d " % number + b"x" * 40)
        self.cluster.advance(0.6)

    def log(self, broker: MemoryBroker) -> PartitionLog:
        """Return the log of partition 0 on a broker."""
        return self.logs()[broker.host]

    def inode(self, broker: MemoryBroker, number: int) -> Inode:
        """Return the file of segment ``number``."""
        log = self.log(broker)
        return broker.files._inode(f"{log.folder}/{log.segment_list.starts[number]:020d}.log")

    def healing(self, broker: MemoryBroker) -> Healing:
        """Return that part of a broker."""
        assert broker.broker is not None
        return broker.broker.healing

    def flip(self, broker: MemoryBroker, number: int, at: int = -3) -> bytes:
        """Flip a bit of a segment, also on the disk; return what it was before."""
        inode = self.inode(broker, number)
        sound = bytes(inode.data)
        inode.data[at] ^= 4
        inode.sync()
        return sound

    def health(self, broker: MemoryBroker) -> dict[str, object]:
        """Return the content of /health."""
        assert broker.broker is not None
        return broker.broker.health()


class HealingTests(DamagedReplicaTestCase):
    """Bytes that change on the disk of one replica."""

    def test_a_follower_takes_the_bytes_of_the_leader(self) -> None:
        """The file is the same again, byte for byte, and so is its time; nobody has read it."""
        broker = self.followers[0]
        modified = self.inode(broker, 1).modified
        sound = self.flip(broker, 1)
        self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)
        self.assertEqual(
            broker.files.durable(f"{self.log(broker).folder}/{self.log(broker).segment_list.starts[1]:020d}.log"), sound
        )
        self.assertEqual(self.inode(broker, 1).modified, modified)
        self.assertEqual(self.healing(broker).healer.healed, 1)
        self.assertEqual(len(self.healing(broker).damaged), 0)
        self.assertLess(self.healing(broker).healer.healed_bytes, len(sound))

    def test_a_leader_lets_another_one_lead_first(self) -> None:
        """Then it heals as a follower."""
        leader = self.leader
        sound = self.flip(leader, 0)
        self.cluster.advance(5.0)
        self.assertIsNot(self.leader, leader)
        self.assertEqual(bytes(self.inode(leader, 0).data), sound)
        self.send(b"afterwards")

    def test_a_damaged_length_is_healed(self) -> None:
        """Nothing in the file tells where entries go on."""
        broker = self.followers[0]
        sound = self.flip(broker, 1, 1)
        self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)

    def test_a_cut_segment_is_healed(self) -> None:
        """The file watch has seen it, too; the loss is not told any more."""
        broker = self.followers[0]
        inode = self.inode(broker, 1)
        sound = bytes(inode.data)
        del inode.data[100:]
        inode.sync()
        self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)
        self.assertEqual(self.log(broker).loss, "")

    def test_a_missing_segment_is_healed(self) -> None:
        """Its file was removed by hand."""
        broker = self.followers[0]
        sound = bytes(self.inode(broker, 1).data)
        broker.files.remove(f"{self.log(broker).folder}/{self.log(broker).segment_list.starts[1]:020d}.log")
        self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)

    def test_the_last_segment_is_closed_first(self) -> None:
        """Appends go to the next one, and what was appended meanwhile stays."""
        for broker in (self.followers[0], self.leader):
            count = len(self.log(broker).segment_list.starts)
            self.send(b"in the last segment")
            self.cluster.advance(0.3)
            sound = self.flip(broker, -1, 30)
            self.cluster.advance(0.5)
            self.send(b"meanwhile")
            self.cluster.advance(4.0)
            self.assertGreater(len(self.log(broker).segment_list.starts), count)
            self.assertIn(sound, self.contents().pop())
            self.assertEqual(len(self.contents()), 1)

    def test_a_reader_goes_on_with_the_file_that_it_has_opened(self) -> None:
        """A send that is under way is not disturbed."""
        broker = self.followers[0]
        log = self.log(broker)
        start = log.segment_list.starts[1]
        reading = log.read(start, 1000)
        assert reading is not None
        self.flip(broker, 1)
        self.cluster.advance(3.0)
        self.assertEqual(self.healing(broker).healer.healed, 1)
        self.assertEqual(len(reading.file.read_at(0, 1000)), reading.count)
        reading.close()

    def test_damage_in_two_replicas_is_healed_from_the_third(self) -> None:
        """Each has the bytes of one that is sound."""
        sound = [self.flip(broker, 1) for broker in self.followers]
        self.cluster.advance(5.0)
        self.assertEqual(
            [bytes(self.inode(broker, 1).data) for broker in self.cluster.brokers if broker is not self.leader], sound
        )

    def test_health_names_the_damage_until_it_is_healed(self) -> None:
        """Without a replica that is in sync there is nobody to take the bytes from."""
        leader = self.leader
        for follower in self.followers:
            follower.kill()
        self.cluster.advance(7.0)
        sound = self.flip(leader, 1)
        self.cluster.advance(3.0)
        health = self.health(leader)
        self.assertEqual(health["status"], "degraded")
        damaged = health["damaged"]
        assert isinstance(damaged, dict)
        self.assertIn("checksum mismatch; it cannot be healed now: no other replica is in sync", damaged["t-0"])
        for broker in self.cluster.brokers:
            if not broker.running:
                broker.start()
        self.cluster.advance(90.0)
        self.assertEqual(bytes(self.inode(leader, 1).data), sound)
        self.assertNotIn("damaged", self.health(leader))
        self.assertIn(self.health(leader)["status"], "ok")

    def test_a_replica_that_lacks_bytes_at_a_start_is_copied_anew(self) -> None:
        """It is not served then; once it is out of the in-sync set, nothing in it counts any more."""
        broker = self.followers[0]
        sound = bytes(self.inode(broker, 1).data)
        path = f"{self.log(broker).folder}/{self.log(broker).segment_list.starts[1]:020d}.log"
        broker.kill()
        inode = broker.files._inode(path)
        del inode.data[10:]
        inode.sync()
        broker.start()
        self.assertIsNotNone(self.log(broker).offline)
        self.cluster.advance(10.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertIn(sound, self.contents().pop())
        self.assertEqual(len(self.contents()), 1)

    def test_a_leader_learns_of_damage_from_a_follower_that_refuses_it(self) -> None:
        """A new replica would never catch up if the leader did not find the damage before the next verification."""
        leader, (empty, _) = self.leader, self.followers
        empty.kill()
        empty.files = MemoryFiles(now=self.cluster.clock.seconds)
        self.healing(leader).verifier.stop()
        sound = self.flip(leader, 1)
        empty.start()
        self.cluster.advance(15.0)
        self.assertEqual(bytes(self.inode(leader, 1).data), sound)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)

    def test_bytes_behind_a_segments_end_are_cut_off(self) -> None:
        """Nobody reads them, and no bytes of others are needed."""
        broker = self.followers[0]
        inode = self.inode(broker, 1)
        sound = bytes(inode.data)
        inode.data += b"left over"
        inode.sync()
        self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)
        self.assertEqual(self.healing(broker).healer.healed_bytes, 0)

    def test_the_roles_are_as_before(self) -> None:
        """A follower stays one, in sync, and the leader leads on."""
        leader = self.leader
        self.flip(self.followers[0], 1)
        self.cluster.advance(3.0)
        self.assertIs(self.leader, leader)
        self.assertIsInstance(self.log(leader).replica, LeaderRole)
        self.assertEqual(self.in_sync(), (0, 1, 2))


class StopTests(DamagedReplicaTestCase):
    """A broker that stops while it heals."""

    def test_no_other_replica_is_asked_any_more(self) -> None:
        """The one that was asked has not answered. What waits for it ends, and is not tried again."""
        asked: list[int] = []

        async def waiting(reads: ReplicaReads, request: ReplicaReadV1) -> bytes:
            asked.append(reads._manager.store.broker_id)
            return await Deferred()

        self.patch(ReplicaReads, "_read", waiting)
        broker = self.followers[0]
        self.flip(broker, 1)
        self.cluster.advance(2.0)
        self.healing(broker).stop()
        self.cluster.advance(10.0)
        self.assertEqual(asked, [self.leader.settings.id])


class SeldomVerifiedTests(DamagedReplicaTestCase):
    """Segments that are verified less often than their healing is tried."""

    more = {"verify_ms": 100_000}  # noqa: RUF012

    def test_damage_in_records_that_were_deleted_needs_no_healing(self) -> None:
        """The log begins behind it by now: nobody reads these bytes, and no other replica gives them any more."""
        leader = self.leader
        for follower in self.followers:
            follower.kill()
        self.cluster.advance(7.0)
        self.flip(leader, 0, 30)
        self.cluster.advance(120.0)
        self.assertIn("damaged", self.health(leader))
        log = self.log(leader)
        assert leader.store is not None
        leader.store.delete_before(log, log.end // 10, lambda error: None)
        self.cluster.advance(65.0)
        self.assertEqual(log.segment_list.starts[0], 0)
        self.assertGreater(log.start, 50)
        self.assertNotIn("damaged", self.health(leader))
        self.assertEqual(self.healing(leader).healer.healed, 0)
