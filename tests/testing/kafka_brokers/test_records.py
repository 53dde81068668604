"""The records that a test sees, of topics that go while they are read."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.testing import MemoryCluster
from logd.testing.kafka_brokers.records import KafkaRecord, read_records

#: Seconds of the clock after which the topic goes, while its ten megabytes are read.
MOMENTS = [0.0, 0.001, 0.002]


class ReadRecordsTests(SynchronousTestCase):
    """A topic that is deleted at any moment of the reading."""

    def setUp(self) -> None:
        """Start a cluster."""
        self.cluster = MemoryCluster()
        self.cluster.wait(self.cluster.start())
        self.addCleanup(lambda: self.cluster.wait(self.cluster.stop()))

    def read(self) -> Deferred[list[KafkaRecord]]:
        """Begin to read the topic."""
        address, connect = self.cluster.addresses[0], self.cluster.connect
        return Deferred.fromCoroutine(read_records(self.cluster.clock, address, "events", 0, 10.0, connect))

    def send(self, payload: bytes) -> None:
        """Send twenty messages."""
        self.cluster.wait(self.cluster.producer().send("events", [payload] * 20))

    def test_a_topic_that_is_deleted(self) -> None:
        """All of its records are seen, or none."""
        for moment in MOMENTS:
            self.send(b"x" * 500_000)
            reading = self.read()
            self.cluster.advance(moment)
            self.cluster.wait(self.cluster.admin().delete("events"))
            self.assertIn(len(self.cluster.wait(reading)), (0, 20), moment)

    def test_a_topic_that_is_made_again(self) -> None:
        """The records of the first one or of the second are seen, which has fewer bytes."""
        for moment in MOMENTS:
            self.send(b"x" * 500_000)
            reading = self.read()
            self.cluster.advance(moment)
            self.cluster.wait(self.cluster.admin().delete("events"))
            self.send(b"y")
            self.assertEqual(len(self.cluster.wait(reading)), 20, moment)
            self.cluster.wait(self.cluster.admin().delete("events"))
