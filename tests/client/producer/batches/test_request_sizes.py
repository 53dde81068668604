"""Tests of the size of requests with batches of several partitions."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer import sender
from logd.client.producer.producer import Producer
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import ProducerTestCase


class RequestSizeTests(ProducerTestCase):
    """Requests of at most 3,000 bytes, each with batches of some partitions until it has 1,000."""

    def setUp(self) -> None:
        """Make a topic and a producer that is connected."""
        super().setUp()
        self.patch(sender, "ENOUGH_BYTES", 1000)
        self.patch(sender, "LARGEST_REQUEST", 3000)

    def begin(self, **settings: Any) -> Producer:
        """Return a producer that has sent something to each of three partitions of a topic."""
        self.logs = self.broker.add("p", 3)
        producer = self.producer(batch_bytes=2900, **settings)
        for partition in range(3):
            self.result(producer.send("p", b"first", partition=partition))
        self.broker.requests.clear()
        return producer

    def largest(self) -> int:
        """Return the bytes of the sets in the largest request."""
        return max(
            sum(len(part.message_set) for part in request.parts)
            for request in self.broker.requests
            if isinstance(request, ProduceAck)
        )

    def test_no_request_is_larger_than_brokers_take(self) -> None:
        """A broker would end the connection, and a small batch may come before one that is nearly as large."""
        producer = self.begin()
        sending = [
            producer.send("p", b"x" * size, partition=partition) for partition, size in ((0, 500), (1, 2800), (2, 100))
        ]
        for each in sending:
            self.result(each)
        self.assertLessEqual(self.largest(), 3000)
        self.assertEqual([len(log.payloads()) for log in self.logs.values()], [2, 2, 2])

    def test_nor_is_one_after_a_send_was_cancelled(self) -> None:
        """The batch that leaves is another one then than the one that was next before."""
        producer = self.begin()
        sending = [producer.send("p", b"x" * size, partition=part) for part, size in ((0, 500), (1, 200), (1, 2800))]
        sending[1].cancel()
        self.failureResultOf(sending.pop(1), CancelledError)
        for each in sending:
            self.result(each)
        self.assertLessEqual(self.largest(), 3000)
        self.assertEqual([len(log.payloads()) for log in self.logs.values()], [2, 2, 1])

    def test_nor_is_one_after_a_cancelled_send_made_room(self) -> None:
        """A send that waited for it may come into the very batch that is about to leave."""
        producer = self.begin(buffer_bytes=3000)
        sizes = ((0, 500), (1, 100), (1, 1500), (1, 2500))
        sending = [producer.send("p", b"x" * size, partition=part) for part, size in sizes]
        self.assertGreater(producer.buffered_bytes, 3000)
        sending[2].cancel()
        self.failureResultOf(sending.pop(2), CancelledError)
        for each in sending:
            self.result(each)
        self.assertLessEqual(self.largest(), 3000)
        self.assertEqual([len(log.payloads()) for log in self.logs.values()], [2, 3, 1])
