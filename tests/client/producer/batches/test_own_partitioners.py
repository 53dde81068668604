"""Tests of partitioners of the application that are in error."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from logd.client.interfaces import IPartitioner
from tests.client.producers import ProducerTestCase


@implementer(IPartitioner)
class WrongPartitioner:
    """Chooses the number that its key has, and cannot be told of complete batches."""

    def choose(self, topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return the key's number."""
        return int(key or b"0")

    def sealed(self, topic: str, partition: int) -> None:
        """Fail."""
        raise KeyError(partition)


class GuardedPartitionerTests(ProducerTestCase):
    """``GuardedPartitioner``."""

    def test_an_error_stops_no_batch(self) -> None:
        """Batches that were about to leave would be neither sent nor given up."""
        logs = self.broker.add("p", 2)
        producer = self.producer(partitioner=WrongPartitioner())
        sending = [producer.send("p", b"%d" % number, key=b"%d" % (number % 2)) for number in range(6)]
        for each in sending:
            self.result(each)
        self.assertEqual([len(log.payloads()) for log in logs.values()], [3, 3])
        self.assertTrue(self.flushLoggedErrors(KeyError))

    def test_a_number_that_is_no_partition_fails_the_send_at_once(self) -> None:
        """It would be tried for as long as ``delivery_timeout`` otherwise."""
        self.broker.add("p", 2)
        producer = self.producer(partitioner=WrongPartitioner())
        sending = producer.send("p", b"1", key=b"5")
        self.run_for(0.1)
        self.assertIn("chose 5 for topic", str(self.failureResultOf(sending, ValueError).value))
