"""The snapshots of what idempotent producers have sent: others are served while one is made or read."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from kafka.protocol.producer import ProduceRequest

from logd.log.producers import states
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.kafka.test_producing import wire


def produce(*batches: bytes) -> Any:
    """Return a request to store batches."""
    topic = ProduceRequest.TopicProduceData
    data = [topic.PartitionProduceData(index=0, records=each) for each in batches]
    return ProduceRequest[8](
        transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic(name="t", partition_data=data)]
    )


class ProducerSnapshotTests(KafkaTestCase):
    """Snapshots of many producers: 100,000 of one partition take 0.3 s to be encoded, and a second to be decoded."""

    def test_they_are_made_in_steps_and_read_on_a_thread(self) -> None:
        """Batches that are stored meanwhile are found behind the snapshot's position."""
        self.create("t")
        peer = self.kafka()
        for producer in (7, 8):
            self.kafka_produce(peer, "t", wire(b"a", producer=(producer, 0, 0)))
        self.patch(states, "STEP_PRODUCERS", 1)
        summed: list[int] = []

        def sum_of(data: Any) -> int:
            summed.append(len(data))
            return crc32(data)

        self.patch(states, "crc32", sum_of)
        self.broker.idempotence.write()
        self.assertEqual(summed, [])
        peer.send(produce(wire(b"b", producer=(8, 0, 1)), wire(b"a", producer=(9, 0, 0))))
        self.settle()
        self.assertEqual(len(summed), 1)
        log = self.log_of("t")
        self.broker.idempotence.forget(log)
        self.broker.idempotence.load(log, lambda: None)
        self.assertEqual(len(summed), 1)
        self.settle()
        self.assertEqual(len(summed), 2)
        found = self.broker.idempotence.of(log)
        assert found is not None
        self.assertEqual({number: len(each.batches) for number, each in found.producers.items()}, {7: 1, 8: 2, 9: 1})

    def test_damage_that_stays_costs_a_batch_little(self) -> None:
        """Not a look at each producer of the partition, for every batch until the damage is healed."""
        looks: list[None] = []

        class Watched(dict[int, states.ProducerState]):
            def values(self) -> Any:
                looks.append(None)
                return super().values()

        self.create("t")
        peer, known = self.kafka(), self.broker.idempotence
        self.kafka_produce(peer, "t", wire(b"a", producer=(7, 0, 0)))
        found = known.of(self.log_of("t"))
        assert found is not None
        found.producers = Watched(found.producers)
        found.missed(0, 10, known.now_ms() - 60_000)
        known.is_damaged = lambda log, position: True
        self.assertEqual(self.kafka_produce(peer, "t", wire(b"b", producer=(7, 0, 1))).error_code, 0)
        self.assertEqual(looks, [])
