"""Tests of logd.client.cluster.partition_outages, under a consumer."""

from __future__ import annotations

from logd.client.log_warnings import tell_warnings
from logd.errors import PartitionOffline, UnknownError
from logd.protocol.requests.fetch_wait import FetchedPart
from tests.client.consumers import ConsumerCase


class UnavailableTests(ConsumerCase):
    """A consumer in front of partitions that cannot be read."""

    def setUp(self) -> None:
        """Listen to what a person is told."""
        super().setUp()
        self.told: list[str] = []
        self.addCleanup(tell_warnings(self.told.append))

    def offline(self, *partitions: int) -> None:
        """Have the broker serve all but these."""
        self.broker.partition_errors = dict.fromkeys([("t", each) for each in partitions], PartitionOffline.code)
        self.broker.meddle = lambda part: (
            FetchedPart(part.topic, part.partition, PartitionOffline.code) if part.partition in partitions else part
        )

    def test_told_and_returned(self) -> None:
        """After a few seconds one line names them all, with the reason; another one says that they are back."""
        self.offline(0, 2)
        stream = self.stream(retry_delay_limit=1.0)
        messages, reading = self.read(stream)
        self.run_for(2.0)
        self.assertEqual(self.told, [])
        self.run_for(3.0)
        (line,) = self.told
        self.assertIn("cannot read topic 't', partitions [0, 2] for 3 seconds", line)
        self.assertIn("offline", line)
        self.run_for(20.0)
        self.assertEqual(len(self.told), 1)
        self.assertEqual(len(messages), 100)
        self.offline()
        self.run_for(5.0)
        self.assertEqual(len(self.told), 2)
        self.assertIn("topic 't', partitions [0, 2] can be read again, after 2", self.told[1])
        self.assertEqual(len(messages), 300)
        reading.cancel()
        self.failureResultOf(reading)

    def test_one_more(self) -> None:
        """One that follows later is told by itself, a few seconds after it began."""
        self.offline(0)
        stream = self.stream(retry_delay_limit=1.0, max_wait=0.1)
        self.run_for(2.0)
        self.offline(0, 1)
        self.run_for(2.0)
        self.assertEqual(len(self.told), 1)
        self.run_for(4.0)
        self.assertEqual(len(self.told), 2)
        self.assertIn("partition [1]", self.told[1])
        self.assertEqual(len(stream.positions()), 3)

    def test_passing(self) -> None:
        """Errors that pass within seconds are nobody's concern."""
        fails = [True]
        self.broker.meddle = lambda part: FetchedPart(part.topic, part.partition, UnknownError.code) if fails else part
        stream = self.stream(max_wait=0.1)
        self.run_for(1.5)
        fails.clear()
        self.run_for(10.0)
        self.assertEqual(self.told, [])
        self.assertEqual(stream.failed, False)

    def test_unreadable_place(self) -> None:
        """A place that the broker cannot read, in the middle of a partition, is told like a partition."""
        self.broker.meddle = lambda part: (
            FetchedPart(part.topic, part.partition, UnknownError.code) if part.partition == 1 else part
        )
        stream = self.stream([1])
        self.run_for(8.0)
        (line,) = self.told
        self.assertIn("topic 't', partition [1]", line)
        self.assertEqual(stream.positions(), {1: 0})

    def test_closed(self) -> None:
        """Nothing is said once the stream is closed, and no timer stays behind."""
        self.offline(0, 1, 2)
        consumer = self.consumer()
        (stream,) = consumer.create_message_streams("t", 1)
        self.run_for(1.0)
        stream.close()
        self.run_for(10.0)
        self.assertEqual(self.told, [])
        consumer.close()
        self.run_for(1.0)
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.getTime() > self.clock.seconds()], [])
