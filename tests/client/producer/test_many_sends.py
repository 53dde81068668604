"""Tests of the bound on sends of one message each, whose live Deferreds cost the garbage collector."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer import unfinished
from logd.errors import ClientClosed
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import ProducerTestCase


class ManySendsTests(ProducerTestCase):
    """Four sends are as many as there is room for."""

    def setUp(self) -> None:
        """Set the bound, and have a producer that knows its topic."""
        super().setUp()
        self.patch(unfinished, "MOST_SENDS", 4)
        self.patch(unfinished, "SENDS_OF_PARTITION", 3)
        self.patch(unfinished, "ENOUGH_SHARE", 3 / 4)

    def known(self, **settings: Any) -> Any:
        """Return a producer that has sent to the topic."""
        producer = self.producer(**settings)
        sending = producer.send("t", b"first")
        producer.flush()
        self.result(sending)
        return producer

    def test_there_is_no_room_until_sends_are_answered(self) -> None:
        """``has_room`` and ``ready`` agree, whatever becomes of the sends; those that do not ask are taken."""
        for settings in ({}, {"linger": 600.0}, {"batch_messages": 1}, {"compression": "gzip"}):
            producer = self.known(**settings)
            sending = []
            for number in range(6):
                self.assertEqual(producer.has_room, number < 4)
                self.assertEqual(producer.ready().called, number < 4)
                sending.append(producer.send("t", b"%d" % number))
            waiting = producer.ready()
            self.run_for(0.3)
            self.successResultOf(waiting)
            self.assertTrue(producer.has_room)
            for each in sending:
                self.successResultOf(each)

    def test_a_caller_that_waits_goes_on_with_room_for_several(self) -> None:
        """Else it would wait and be woken for each message where each is a request of its own."""
        producer = self.known(linger=600.0)
        sending = [producer.send("t", b"%d" % number) for number in range(4)]
        waiting = producer.ready()
        sending[0].cancel()
        self.failureResultOf(sending[0], CancelledError)
        self.assertTrue(producer.has_room)
        self.assertNoResult(waiting)
        self.successResultOf(producer.ready())
        sending[1].cancel()
        self.failureResultOf(sending[1], CancelledError)
        self.successResultOf(waiting)

    def test_cancelled_and_failed_sends_make_room(self) -> None:
        """Those that have not left are taken back; all of them end when the producer is closed."""
        producer = self.known(linger=600.0)
        sending = [producer.send("t", b"%d" % number) for number in range(4)]
        self.assertFalse(producer.has_room)
        sending[1].cancel()
        self.failureResultOf(sending[1], CancelledError)
        self.assertTrue(producer.has_room)
        self.broker.silent = (ProduceAck,)
        waiting = [producer.send("t", b"more") for _ in range(3)]
        self.assertFalse(producer.has_room)
        producer.close(0.1)
        self.run_for(0.3)
        for each in (sending[0], *sending[2:], *waiting):
            self.failureResultOf(each, ClientClosed)
        self.assertEqual(producer._unfinished.sends, 0)

    def test_sends_to_many_partitions_have_more_room(self) -> None:
        """As many as make sets of several messages for each of them."""
        self.broker.add("many", 3)
        producer = self.known(linger=600.0)
        sending = producer.send("many", b"first", partition=0)
        producer.flush()
        self.result(sending)
        for number in range(9):
            self.assertTrue(producer.has_room)
            producer.send("many", b"%d" % number, partition=number % 3)
        self.assertTrue(producer.has_room)  # three partitions, and that of the topic before
        for number in range(3):
            producer.send("many", b"%d" % number, partition=number)
        self.assertFalse(producer.has_room)
        waiting = producer.ready()
        self.assertNoResult(waiting)
        self.run_for(0.3)
        self.successResultOf(waiting)

    def test_messages_that_are_published_are_not_counted(self) -> None:
        """Nothing but their bytes is held."""
        producer = self.known(linger=600.0)
        for number in range(20):
            self.assertTrue(producer.publish("t", b"%d" % number))
        self.assertTrue(producer.has_room)
