"""Requests that take several turns of the reactor: what changes between these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.producer import ProduceRequest

from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.deferreds import fair_turns
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.kafka.test_producing import wire

#: Parts of a request that takes several turns.
_PARTS = 1200


def _produce(parts: Iterable[tuple[int, bytes]], acks: int = -1) -> Any:
    """Return a Produce of (partition, batch)es of topic t."""
    topic = ProduceRequest.TopicProduceData
    data = [topic.PartitionProduceData(index=partition, records=records) for partition, records in parts]
    return ProduceRequest[8](
        transactional_id=None, acks=acks, timeout_ms=60_000, topic_data=[topic(name="t", partition_data=data)]
    )


class BetweenTurnsTests(KafkaTestCase):
    """Every turn is as short as can be."""

    def setUp(self) -> None:
        """Make a topic of two partitions; the directory has had its first batch, for which a Produce waits."""
        super().setUp()
        self.create("t", 2)
        self.ask(self.kafka(), _produce([(1, wire(b"first"))]))
        self.patch(fair_turns, "TURN_SECONDS", 0.0)

    def errors(self, response: Any) -> list[int]:
        """Return the error code of each part."""
        return [part.error_code for part in response.responses[0].partition_responses]

    def test_a_log_that_may_not_grow_any_more(self) -> None:
        """It is held while the topics are looked at: none of its parts is stored before it is released."""
        peer, log = self.kafka(), self.log_of("t")
        peer.send(_produce((number // 50, wire(b"%d" % number)) for number in range(100)))
        self.assertEqual(log.end, 0, "the request had only one turn")
        self.broker.growth.hold(log)
        self.settle()
        self.assertEqual(log.end, 0)
        self.broker.growth.let_go([log])
        self.settle()
        self.assertEqual(self.errors(*peer.answers()), [0] * 100)

    def test_other_logs_that_may_not_grow(self) -> None:
        """Each part is compared with them a few times only, however many parts there are."""
        self.create("other")
        self.broker.growth.hold(self.log_of("other"))
        looked_at = []
        must_wait = StoredEndGate.must_wait

        def counted(gate: StoredEndGate, parts: Any, logs: Any) -> bool:
            looked_at.append(len(parts))
            return must_wait(gate, parts, logs)

        self.patch(StoredEndGate, "must_wait", counted)
        answer = self.ask(self.kafka(), _produce((0, wire(b"%d" % number)) for number in range(_PARTS)))
        self.assertEqual(set(self.errors(answer)), {0})
        self.assertLess(sum(looked_at), 3 * _PARTS)
        self.broker.growth.let_go_topic("other")

    def test_a_lost_connection_waits_for_no_log(self) -> None:
        """Connections would pile up for as long as the log may not grow."""
        self.broker.growth.hold(self.log_of("t"))
        for _ in range(3):
            peer = self.kafka()
            peer.send(_produce([(0, wire(b"a"))]))
            peer.lose()
        self.assertEqual(len(self.broker.growth._waiting), 0)
        self.broker.growth.let_go_topic("t")
