"""Tests of idempotent producers whose batches lie in a damaged replica: its leader does not overlook them."""

from __future__ import annotations

from logd.log.producers.states import ProducerStates
from logd.protocol.batch import encode_batch
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
        payload = b"from an idempotent producer"
        entry = encode_batch([Message(payload)])[:8] + wire(payload, producer=(PRODUCER, 0, 0))[8:]
        self.log(self.leader).append([entry], 1, -1)
        self.cluster.advance(1.0)
        self.assertEqual(len(self.contents()), 1)

    def load(self, broker: MemoryBroker, seconds: float) -> ProducerStates | None:
        """Have a broker read the states; return them if that takes no longer than some seconds."""
        assert broker.broker is not None
        idempotence, done = broker.broker.idempotence, list[int]()
        log = self.log(broker)
        idempotence.forget(log)
        idempotence.load(log, lambda: done.append(1))
        self.cluster.advance(seconds)
        return idempotence.of(log) if done else None

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
        states = self.load(leader, 10.0)
        assert states is not None
        self.assertEqual(list(states.producers), [PRODUCER])
