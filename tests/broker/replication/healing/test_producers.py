"""Tests of idempotent producers whose batches lie in a damaged replica: its leader does not overlook them."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.errors import CorruptMessage
from logd.log.disk.names import PRODUCERS
from logd.log.producers.states import ProducerStates, SequencedBatch, UnreadBatches
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_HEAD_BYTES
from logd.protocol.message import Message
from logd.testing.memory.broker import MemoryBroker
from tests.broker.kafka.test_producing import wire
from tests.broker.replication.healing.test_healing import DamagedReplicaTestCase

#: The id of a producer.
PRODUCER = 77


class DamagedProducersTests(DamagedReplicaTestCase):
    """A leader that reads what producers have sent from the heads of stored batches."""

    def setUp(self) -> None:
        """Store a batch of a producer in the last segment."""
        super().setUp()
        self.put(0)
        self.assertEqual(len(self.contents()), 1)

    def put(self, sequence: int) -> int:
        """Store a batch of the producer; return where it begins."""
        payload = b"from an idempotent producer"
        entry = encode_batch([Message(payload)])[:8] + wire(payload, producer=(PRODUCER, 0, sequence))[8:]
        position = self.log(self.leader).append([entry], 1, -1)
        self.cluster.advance(1.0)
        return position

    def load(self, broker: MemoryBroker, seconds: float, *, anew: bool = True) -> ProducerStates | None:
        """Have a broker read the states, ``anew`` or as it has begun to; return them if they are read by then.

        They are read once more if the leadership has ended meanwhile: as for the next request.
        """
        assert broker.broker is not None
        idempotence, done = broker.broker.idempotence, list[int]()
        log = self.log(broker)
        if anew:
            idempotence.forget(log)
        idempotence.load(log, lambda: done.append(1))
        self.cluster.advance(seconds)
        if done and idempotence.of(log) is None:
            idempotence.load(log, lambda: done.append(1))
            self.cluster.advance(1.0)
        return idempotence.of(log) if done else None

    def snapshot(self, broker: MemoryBroker) -> bytes | None:
        """Have a broker write its snapshots; return that of the partition, None if there is none."""
        assert broker.broker is not None
        self.cluster.wait(Deferred.fromCoroutine(broker.broker.idempotence.finish()))
        path = f"{self.log(broker).folder}/{PRODUCERS}"
        return bytes(broker.files._inode(path).data) if broker.files.exists(path) else None

    def test_damage_is_healed_first(self) -> None:
        """A damaged head would hide its batch, or make up another one."""
        leader = self.leader
        self.healing(leader).verifier.stop()
        sound = self.flip(leader, 1)
        states = self.load(leader, 5.0)
        self.assertEqual(bytes(self.inode(leader, 1).data), sound)
        assert states is not None
        self.assertEqual(list(states.producers), [PRODUCER])

    def test_what_is_behind_damage_is_read_where_nobody_has_the_bytes(self) -> None:
        """The producers that are known there are: what lies in the damage may be stored twice."""
        leader = self.leader
        for follower in self.followers:
            follower.kill()
        self.cluster.advance(7.0)
        self.flip(leader, 1)
        self.assertIsNone(self.load(leader, 5.0))
        states = self.load(leader, 10.0, anew=False)
        assert states is not None
        self.assertEqual(list(states.producers), [PRODUCER])

    def test_a_damaged_length_is_healed_first(self) -> None:
        """By it the entry would reach over all that is behind."""
        leader = self.leader
        self.healing(leader).verifier.stop()
        sound = self.flip(leader, 1, 1)
        states = self.load(leader, 5.0)
        assert states is not None
        self.assertEqual(bytes(self.inode(leader, 1).data), sound)
        self.assertEqual(list(states.producers), [PRODUCER])

    def test_an_entry_that_is_larger_than_a_read_is_checked_whole(self) -> None:
        """Its head is read with all of it."""
        leader = self.leader
        assert leader.broker is not None
        heads = leader.broker.idempotence._heads
        log = self.log(leader)
        start = log.segment_list.starts[1]
        (expected, _), *_ = self.cluster.wait(Deferred.fromCoroutine(heads(log, start, log.end, 1 << 20)))
        self.assertEqual(
            self.cluster.wait(Deferred.fromCoroutine(heads(log, start, log.end, BATCH_HEAD_BYTES))), [(expected, None)]
        )
        self.flip(leader, 1, expected - start - 1)
        with self.assertRaises(CorruptMessage):
            self.cluster.wait(Deferred.fromCoroutine(heads(log, start, log.end, BATCH_HEAD_BYTES)))

    def test_a_file_that_ends_between_two_entries_is_healed_first(self) -> None:
        """All that is left of it is sound."""
        position = self.put(1)
        for number in range(10):
            self.send(b"afterwards %d " % number + b"x" * 40)
        leader = self.leader
        log = self.log(leader)
        self.healing(leader).verifier.stop()
        number = log.segment_list.find(position)
        inode = self.inode(leader, number)
        sound = bytes(inode.data)
        reading = log.read(position, 100)  # opened before, so its size is not looked at any more
        assert reading is not None
        self.addCleanup(reading.close)
        del inode.data[position - log.segment_list.starts[number] :]
        inode.sync()
        states = self.load(leader, 5.0)
        assert states is not None
        self.assertEqual(bytes(self.inode(leader, number).data), sound)
        self.assertEqual(states.producers[PRODUCER].expected, 2)

    def test_a_producer_waits_for_what_nobody_can_read_now(self) -> None:
        """It is neither refused for good nor stored twice, no snapshot passes over the hole, and healing fills it."""
        position = self.put(1)
        for number in range(10):
            self.send(b"afterwards %d " % number + b"x" * 40)
        leader, followers = self.leader, self.followers
        for follower in followers:
            follower.kill()
        self.cluster.advance(7.0)
        log = self.log(leader)
        number = log.segment_list.find(position)
        self.flip(leader, number, position - log.segment_list.starts[number] + 70)
        states = self.load(leader, 15.0)
        assert states is not None and leader.broker is not None
        self.assertEqual(states.producers[PRODUCER].expected, 1)
        for sequence in (1, 2):
            self.assertRaises(UnreadBatches, states.find, SequencedBatch(PRODUCER, 0, sequence, 1))
        self.assertIsNotNone(states.find(SequencedBatch(PRODUCER, 0, 0, 1)))
        self.assertIsNone(states.find(SequencedBatch(PRODUCER + 1, 0, 0, 1)))
        self.assertIsNone(self.snapshot(leader))
        self.assertIs(leader.broker.idempotence.of(log), states)
        for follower in followers:
            follower.start()
        self.cluster.advance(70.0)
        self.assertEqual(self.healing(leader).healer.healed, 1)
        leader = self.leader
        again = self.load(leader, 5.0)
        assert again is not None and leader.broker is not None
        self.assertIsNone(again.hole)
        self.assertIsNotNone(again.find(SequencedBatch(PRODUCER, 0, 1, 1)))
        self.assertIsNone(again.find(SequencedBatch(PRODUCER, 0, 2, 1)))

    def test_a_hole_is_read_again_once_it_is_not_known_to_be_damaged(self) -> None:
        """The broker may have led all the time."""
        leader = self.leader
        log = self.log(leader)
        states = self.load(leader, 5.0)
        assert states is not None and leader.broker is not None
        idempotence = leader.broker.idempotence
        states.missed(log.start, log.end, idempotence.now_ms())
        self.assertIs(idempotence.of(log), states)
        self.cluster.advance(1.5)
        self.assertIsNone(idempotence.of(log))

    def test_what_is_read_for_a_former_leadership_is_not_kept(self) -> None:
        """Its end is not that of the log any more: a snapshot of it would lack what was stored meanwhile."""
        leader = self.leader
        assert leader.broker is not None
        idempotence, log, done = leader.broker.idempotence, self.log(leader), list[int]()
        idempotence.forget(log)
        idempotence.load(log, lambda: done.append(1))
        idempotence.forget(log)
        self.put(1)
        self.assertEqual(done, [1])
        self.assertIsNone(self.snapshot(leader))
        self.assertIsNone(idempotence.of(log))

    def test_a_snapshot_that_is_written_while_the_leadership_ends_is_removed(self) -> None:
        """Its position may be behind what the next leader has, and in a log that is longer later."""
        leader = self.leader
        assert leader.broker is not None and self.load(leader, 5.0) is not None
        idempotence, log = leader.broker.idempotence, self.log(leader)
        finished = Deferred.fromCoroutine(idempotence.finish())
        idempotence.forget(log)
        self.cluster.wait(finished)
        self.assertFalse(leader.files.exists(f"{log.folder}/{PRODUCERS}"))
