"""Tests of logd.mirror.positions.pair_log with a producer that fails."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable
from logd.mirror.partition_copy import PartitionCopy
from logd.mirror.positions.pair_log import PairLog
from logd.mirror.positions.pairs import PositionPair
from logd.mirror.progress import PartitionProgress
from logd.mirror.target_topics import MirroredTopic
from logd.protocol.message import Message
from logd.topic import TopicPartition

WHERE = TopicPartition("t", 0)
UUID = "0" * 32


class _Topics:
    """The target's topics, where that of the pairs is there."""

    async def prepare_pairs(self) -> None:
        """Find the topic."""


class _Producer:
    """A producer whose sends end as the test says."""

    def __init__(self) -> None:
        self.sends: list[tuple[list[Message], Deferred[None]]] = []

    def send(self, _topic: str, messages: list[Message], partition: int) -> Deferred[None]:
        """Note what is sent."""
        sending: Deferred[None] = Deferred()
        self.sends.append((messages, sending))
        return sending


class FailureTests(SynchronousTestCase):
    """Pairs that were not stored."""

    def test_a_pair_that_was_not_stored_is_published_again(self) -> None:
        """By the next commit, with the counts of the first one, although nothing more was copied."""
        producer, topics = _Producer(), _Topics()
        any_producer: Any = producer
        any_topics: Any = topics
        log = PairLog(Clock(), any_producer, any_topics, UUID, lambda: 1.0)
        log.make_topic()
        topic = MirroredTopic("t", UUID, "t", UUID, 1, 1)
        nothing: Any = None
        copy = PartitionCopy(WHERE, topic, nothing, lambda *_: succeed(nothing), nothing, nothing, 100, {0: 100})
        progress = {WHERE: PartitionProgress()}
        progress[WHERE].copied(100, 7, 70, 0)

        def commit() -> None:
            log.publish(log.due([copy], progress), {WHERE: copy}, progress)

        commit()
        progress[WHERE].copied(100, 2, 20, 0)  # meanwhile
        producer.sends[0][1].errback(BrokerUnavailable("none"))
        commit()  # makes the topic, which may be the reason
        commit()
        self.assertEqual(len(producer.sends), 2)
        (message,) = producer.sends[1][0]
        pair = PositionPair.decode(message.payload or b"")
        self.assertEqual((pair.position, pair.messages, pair.size), (100, 9, 90))
        producer.sends[1][1].callback(None)
        commit()
        self.assertEqual(len(producer.sends), 2, "stored, and nothing was copied since")
