"""Tests of logd.client.cluster.partition_outages, under a consumer."""

from __future__ import annotations

from logd.client.log_warnings import tell_warnings
from logd.errors import PartitionOffline, UnknownError
from logd.protocol.requests.fetch_wait import FetchedPart
from tests.client.consumers import ConsumerTestCase


class PartitionOutageTests(ConsumerTestCase):
    """A consumer in front of partitions that cannot be read."""

    def setUp(self) -> None:
        """Collect the warnings that a command would show."""
        super().setUp()
        self.told: list[str] = []
        self.addCleanup(tell_warnings(self.told.append))

    def offline(self, *partitions: int) -> None:
        """Have the broker serve all but these partitions."""
        self.broker.partition_errors = dict.fromkeys([("t", each) for each in partitions], PartitionOffline.code)
        self.broker.meddle = lambda part: (
            FetchedPart(part.topic, part.partition, PartitionOffline.code) if part.partition in partitions else part
        )

    def test_an_outage_is_told_once_and_so_is_its_end(self) -> None:
        """One line names all partitions with the reason; a second one says that they are back."""
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

    def test_a_later_outage_is_told_by_itself(self) -> None:
        """The line comes a few seconds after it began and leaves out the partitions already named."""
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

    def test_an_error_that_passes_in_seconds_is_not_told(self) -> None:
        """Leaders move in that time, and an operator has nothing to do."""
        fails = [True]
        self.broker.meddle = lambda part: FetchedPart(part.topic, part.partition, UnknownError.code) if fails else part
        stream = self.stream(max_wait=0.1)
        self.run_for(1.5)
        fails.clear()
        self.run_for(10.0)
        self.assertEqual(self.told, [])
        self.assertEqual(stream.failed, False)

    def test_an_unreadable_place_is_told_like_an_outage(self) -> None:
        """The partition is served, but reading cannot go on in the middle of it."""
        self.broker.meddle = lambda part: (
            FetchedPart(part.topic, part.partition, UnknownError.code) if part.partition == 1 else part
        )
        stream = self.stream([1])
        self.run_for(8.0)
        (line,) = self.told
        self.assertIn("topic 't', partition [1]", line)
        self.assertEqual(stream.positions(), {1: 0})

    def test_a_closed_stream_tells_nothing(self) -> None:
        """No timer stays behind, either."""
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
