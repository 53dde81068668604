"""Tests of the time for which messages that come one after the other are kept while no broker takes them."""

from __future__ import annotations

from logd.errors import DeliveryFailed
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import PublishTestCase


class DeliveryTimeTests(PublishTestCase):
    """A broker that is away for a little longer than ``delivery_timeout``."""

    def test_a_late_message_does_not_fail_with_the_first(self) -> None:
        """It would be lost after a moment, though it may be kept for as long as the others were."""
        for known, linger in ((True, 0.0), (True, 2.0), (False, 0.0), (False, 2.0)):
            self.broker.up = True
            self.told.clear()
            self.log.data.clear()
            producer = self.producer(delivery_timeout=20.0, linger=linger)
            if known:
                producer.publish("t", b"before", partition=0)
                self.run_for(3.0)
                self.assertEqual(self.log.payloads(), [b"before"])
            self.broker.up = False
            self.broker.lose_all()
            late = []
            for number in range(19):
                producer.publish("t", b"%d" % number, partition=0)
                late.append(producer.send("t", Message(b"s%d" % number), partition=0))
                self.run_for(1.0)
            self.run_for(2.0)
            self.failureResultOf(late[0], DeliveryFailed)
            self.broker.up = True
            self.run_for(15.0)
            self.assertLess(sum(count for _, count, _ in self.told), 6)
            for each in late[6:]:
                self.successResultOf(each)
            for each in late[1:6]:
                each.addErrback(lambda failure: failure.trap(DeliveryFailed))
            stored = self.log.payloads()
            expected = [text for number in range(6, 19) for text in (b"%d" % number, b"s%d" % number)]
            self.assertEqual(stored[-len(expected) :], expected)
            self.assertEqual(producer.buffered_bytes, 0)

    def test_it_does_not_either_while_the_topic_is_not_known(self) -> None:
        """Published messages are kept together then, too."""
        self.broker.up = False
        producer = self.producer(delivery_timeout=20.0)
        for number in range(19):
            producer.publish("t", b"%d" % number, partition=0)
            self.run_for(1.0)
        self.run_for(2.0)
        self.broker.up = True
        self.run_for(15.0)
        self.assertEqual(self.log.payloads()[-13:], [b"%d" % number for number in range(6, 19)])
        self.assertEqual(sum(count for _, count, _ in self.told) + len(self.log.payloads()), 19)

    def test_it_does_not_either_while_sends_wait_for_room(self) -> None:
        """Messages published behind them are kept together, and have to find their topic once there is room."""
        self.broker.up = False
        producer = self.producer(delivery_timeout=20.0, buffer_bytes=100_000)
        waiting = [producer.send("t", size * b"x", partition=0) for size in (100_000, 10)]
        for number in range(19):
            producer.publish("t", b"%d" % number, partition=0)
            self.run_for(1.0)
        self.run_for(3.0)
        for each in waiting:
            self.failureResultOf(each, DeliveryFailed)
        self.broker.up = True
        self.run_for(15.0)
        self.assertEqual(self.log.payloads()[-13:], [b"%d" % number for number in range(6, 19)])
        self.assertEqual(sum(count for _, count, _ in self.told) + len(self.log.payloads()), 19)
        self.assertEqual(producer.buffered_bytes, 0)


class SilentBrokerTests(PublishTestCase):
    """A broker that takes requests, and answers none: nothing tells that it is away, and a full window waits for it."""

    def test_a_late_message_does_not_fail_with_the_first(self) -> None:
        """The batch that gathers behind the window is not left open for as long as the first message is kept."""
        compressed = MessageSet([Message(b"c")], "gzip")
        for what in (b"one", Message(b"one", key=b"k"), [b"one", b"two"], compressed):
            producer = self.producer(delivery_timeout=20.0, request_timeout=300.0, max_in_flight=1)
            self.result(producer.send("t", b"before", partition=0))
            self.broker.silent = (ProduceAck,)
            in_flight = producer.send("t", b"in flight", partition=0)
            self.run_for(1.0)
            late = []
            for _ in range(19):
                late.append(producer.send("t", what, partition=0))
                self.run_for(1.0)
            self.run_for(2.0)
            self.failureResultOf(late[0], DeliveryFailed)
            self.broker.silent = ()
            self.broker.lose_all()
            self.run_for(15.0)
            for each in late[6:]:
                self.successResultOf(each)
            for each in (in_flight, *late[1:6]):
                each.addErrback(lambda failure: failure.trap(DeliveryFailed))
            self.assertEqual(producer.buffered_bytes, 0)

    def test_nor_does_a_published_one(self) -> None:
        """Each further one joined the batch without a look at the time."""
        producer = self.producer(delivery_timeout=20.0, request_timeout=300.0, max_in_flight=1)
        producer.publish("t", b"before", partition=0)
        self.run_for(1.0)
        self.broker.silent = (ProduceAck,)
        for number in range(23):
            producer.publish("t", b"%d" % number, partition=0)
            self.run_for(1.0)
        self.assertLess(sum(count for _, count, _ in self.told), 6)
