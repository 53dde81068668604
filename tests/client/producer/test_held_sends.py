"""Tests of sends that wait until their topic is known: their order, and how many of them are routed in one turn."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from logd.client.producer import pending_send as module
from logd.deferreds.sleeping import sleep
from logd.errors import TopicCreationDisabled, WrongPartition
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.metadata import MetadataV1
from tests.client.doubles import ModelBroker
from tests.client.producers import ProducerTestCase


class TurnClock(Clock):
    """Makes the calls that are due, and none that they make: as one turn of a reactor does."""

    def advance(self, amount: float) -> None:
        """See Clock."""
        self.rightNow += amount
        for call in [each for each in self.calls if each.getTime() <= self.seconds()]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class HeldSendsTests(ProducerTestCase):
    """Sends that wait until their topic is known."""

    def test_a_callback_cancels_a_later_one_and_sends_again(self) -> None:
        """The cancelled one is not sent, the new one comes after all that waited."""
        producer = self.producer()
        later: list[Deferred[Any]] = []

        def refused(failure: Any) -> None:
            failure.trap(WrongPartition)
            later[0].cancel()
            later.append(producer.send("t", b"new"))

        wrong = producer.send("t", b"wrong", partition=99).addErrback(refused)
        later += [producer.send("t", b"cancelled"), producer.send("t", b"kept")]
        producer.flush()
        self.run_for(0.5)
        self.successResultOf(wrong)
        self.failureResultOf(later[0], CancelledError)
        kept, new = (self.successResultOf(each) for each in later[1:])
        self.assertEqual(kept.partition, new.partition)
        self.assertLess(kept.first_id, new.first_id)


class SlicedReleaseTests(ProducerTestCase):
    """Three messages are routed in one turn of the reactor at most."""

    def setUp(self) -> None:
        """Set the bound."""
        super().setUp()
        self.clock = TurnClock()
        self.broker = ModelBroker(self.clock)
        self.log = self.broker.add("t")[0]
        self.patch(module, "SLICE_MESSAGES", 3)
        #: The messages that were sent and published, in order.
        self.given: list[bytes] = []

    def held(self, producer: Any) -> int:
        """Return the number of messages that wait for their topic."""
        return sum(len(each.messages) for sends in producer._router.unknown.values() for each in sends)

    def send(self, producer: Any, count: int) -> list[Deferred[Any]]:
        """Send and publish messages in turn."""
        sending = []
        for _ in range(count):
            payloads = [b"%d" % (len(self.given) + number) for number in range(5)]
            self.given += payloads
            sending.append(producer.send("t", payloads[0]))
            sending.append(producer.send("t", MessageSet(map(Message, payloads[1:3]))))
            for each in payloads[3:]:
                producer.publish("t", each)
        return sending

    def flush(self, producer: Any) -> None:
        """Let everything be delivered."""
        flushing = producer.flush()
        self.run_for(0.5)
        self.successResultOf(flushing)

    def until_known(self, producer: Any) -> None:
        """Go to the turn in which the metadata come."""
        before = self.held(producer)
        for _ in range(1000):
            self.clock.advance(0.0001)
            if self.held(producer) != before:
                return
        self.fail("no metadata came")

    def test_each_turn_has_a_bounded_part_of_them(self) -> None:
        """And all keep their order, with those that come between the turns."""
        for settings in ({}, {"linger": 0.01}, {"acks": 0}, {"acks": 0, "batch_messages": 1}):
            self.log.data.clear()
            self.given.clear()
            producer = self.producer(**settings)
            sending = self.send(producer, 8)
            for _ in range(30):
                producer.publish("t", b"%d" % len(self.given))
                self.given.append(b"%d" % len(self.given))
            self.until_known(producer)
            turns, before = 0, 70
            while (left := self.held(producer)) or before:
                self.assertLessEqual(before - left, 5, settings)
                sending += self.send(producer, 1) if turns % 5 == 2 else []
                before, turns = self.held(producer), turns + 1
                self.clock.advance(0.0005)  # what was routed leaves meanwhile
            self.assertGreater(turns, 20)
            sending += self.send(producer, 1)
            self.flush(producer)
            for each in sending:
                self.successResultOf(each)
            self.assertEqual(self.log.payloads(), self.given, settings)
            self.assertEqual(producer.buffered_bytes, 0)

    def test_a_way_that_opens_between_two_turns_stays_shut(self) -> None:
        """With acks=0 a message needs no batch once its partition's queue is empty; here it waits behind the others."""
        self.patch(module, "sleep", lambda clock, seconds: sleep(clock, 0.01))  # so that the queue is empty in between
        producer = self.producer(acks=0, batch_messages=1)
        producer.send("t", b"0", partition=0)
        sending = [producer.send("t", b"%d" % number) for number in range(1, 9)]
        self.until_known(producer)
        self.run_for(0.005)
        self.assertEqual(self.log.payloads(), [b"0", b"1", b"2"])
        sending.append(producer.send("t", b"9"))
        producer.publish("t", b"10", partition=0)
        producer.publish("t", b"11")
        self.run_for(0.5)
        for each in sending:
            self.successResultOf(each)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(12)])

    def test_one_published_run_is_divided_too(self) -> None:
        """Messages without a Deferred are held together, but not routed so."""
        producer = self.producer()
        for number in range(20):
            producer.publish("t", b"%d" % number)
        self.until_known(producer)
        self.assertEqual(self.held(producer), 17)
        self.flush(producer)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(20)])

    def test_between_two_turns_they_can_be_cancelled_and_the_producer_closed(self) -> None:
        """Nothing of theirs is sent, or left behind."""
        producer = self.producer()
        sending = [producer.send("t", b"%d" % number) for number in range(9)]
        self.until_known(producer)
        for each in sending[3:5]:
            each.cancel()
            self.failureResultOf(each, CancelledError)
        self.clock.advance(0)
        self.assertEqual(self.held(producer), 1)
        closing = producer.close(0.0)
        self.run_for(0.1)
        self.successResultOf(closing)
        self.assertEqual(self.held(producer), 0)
        for each in sending:
            each.addErrback(lambda _: None)
            self.successResultOf(each)

    def test_a_refused_topic_fails_them_in_turns(self) -> None:
        """Another message, which an application sends when it is told, waits for the next answer."""
        self.broker.topic_errors["t"] = TopicCreationDisabled.code
        producer = self.producer()
        failed: list[int] = []
        for number in range(9):
            producer.send("t", b"%d" % number).addErrback(lambda _: failed.append(1))
        again: list[Deferred[Any]] = []
        producer.send("t", b"last").addErrback(lambda _: again.append(producer.send("t", b"again")))
        self.until_known(producer)
        before = 3
        self.assertEqual(len(failed), before)
        while not again:
            self.assertLessEqual(len(failed) - before, 3)
            before = len(failed)
            self.clock.advance(0)
        self.assertEqual(len(failed), 9)
        asked = sum(isinstance(each, MetadataV1) for each in self.broker.requests)
        del self.broker.topic_errors["t"]
        self.result(again[0], 1.0)
        self.assertGreater(sum(isinstance(each, MetadataV1) for each in self.broker.requests), asked)
