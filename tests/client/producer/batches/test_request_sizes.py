"""Tests of the size of requests with batches of several partitions."""

from __future__ import annotations

from logd.client.producer import sender
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import ProducerTestCase


class RequestSizeTests(ProducerTestCase):
    """Requests of at most 3,000 bytes, each with batches of some partitions until it has 1,000."""

    def test_no_request_is_larger_than_brokers_take(self) -> None:
        """A broker would end the connection, and a small batch may come before one that is nearly as large."""
        self.patch(sender, "ENOUGH_BYTES", 1000)
        self.patch(sender, "LARGEST_REQUEST", 3000)
        logs = self.broker.add("p", 3)
        producer = self.producer(batch_bytes=2900)
        self.result(producer.send("p", b"first", partition=0))
        self.broker.requests.clear()
        sending = [
            producer.send("p", b"x" * size, partition=partition) for partition, size in ((0, 500), (1, 2800), (2, 100))
        ]
        for each in sending:
            self.result(each)
        sizes = [
            sum(len(part.message_set) for part in request.parts)
            for request in self.broker.requests
            if isinstance(request, ProduceAck)
        ]
        self.assertLessEqual(max(sizes), 3000)
        self.assertEqual([len(log.payloads()) for log in logs.values()], [2, 1, 1])
