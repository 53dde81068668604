"""Tests of logd.client.cluster.leader_checks: brokers that leave requests unanswered, dead ones and slow ones."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.leader_checks import LeaderChecks
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.errors import BrokerUnavailable
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelConnection
from tests.client.producers import ProducerTestCase


class LeaderCheckTests(ProducerTestCase):
    """Broker 7 leads at first; broker 8 has the same logs."""

    def connected(self, brokers: str = "model:6667", **settings: Any) -> tuple[Any, ModelConnection]:
        """Make a producer that has sent a message; return its connection, too."""
        given = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5, **settings}
        producer = Producer(brokers, **given)
        self.addCleanup(producer.close)
        self.result(producer.send("t", b"first"))
        connection = self.broker.connections[-1]
        self.broker.requests.clear()
        return producer, connection

    def questions(self) -> int:
        """Return how often metadata was asked for since then."""
        return sum(isinstance(request, Metadata) for request in self.broker.requests)

    def test_a_dead_leader_is_given_up_for_the_next(self) -> None:
        """Everything that was not answered is sent to the new leader, once and in order."""
        producer, connection = self.connected()
        self.broker.dead = 7
        sending = [producer.send("t", b"%d" % number) for number in range(3)]
        self.run_for(1.0)
        self.broker.leaders["t", 0] = 8
        self.run_for(3.0)
        for each in sending:
            self.successResultOf(each)
        self.assertTrue(connection.lost)
        self.assertEqual(self.log.payloads(), [b"first", b"0", b"1", b"2"])

    def test_a_dead_leader_by_two_names(self) -> None:
        """The client began at another name than metadata has, and does not ask there, as it might for any topic."""
        producer, _ = self.connected("alias:6667")
        self.assertEqual(len(self.broker.connections), 2)
        self.broker.dead = 7
        sending = producer.send("t", b"x")
        self.broker.leaders["t", 0] = 8
        self.run_for(3.0)
        self.successResultOf(sending)

    def test_a_broker_that_was_only_given(self) -> None:
        """It is asked where metadata has named no other broker yet."""
        self.broker.alone = True
        producer, _ = self.connected("model:6667,model:6668")
        self.broker.alone = False
        self.broker.dead = 7
        sending = producer.send("t", b"x")
        self.broker.leaders["t", 0] = 8
        self.run_for(3.0)
        self.successResultOf(sending)

    def test_a_slow_leader_is_waited_for(self) -> None:
        """Its connection stays; another broker is asked now and then, for all requests and partitions together."""
        self.broker.add("more", 5)
        producer, connection = self.connected()
        sending = [producer.send("more", b"x", partition=number) for number in range(5)]
        self.run_for(0.1)
        self.broker.delay = 20.0
        sending += [producer.send(topic, b"%d" % n) for n in range(5) for topic in ("t", "more")]
        self.run_for(0.1)
        self.broker.delay = 0.001
        self.broker.requests.clear()
        self.run_for(19.0)
        self.assertFalse(connection.lost)
        self.assertLessEqual(self.questions(), 8)
        self.assertGreaterEqual(self.questions(), 5)
        self.run_for(1.5)
        for each in sending:
            self.successResultOf(each)
        self.assertFalse(connection.lost)
        self.assertEqual(len([each for each in self.broker.connections if each.id == 7]), 1)

    def test_an_answer_in_time_costs_nothing(self) -> None:
        """No metadata is read while answers come, however long the producer sends."""
        producer, _ = self.connected()
        for _ in range(100):
            self.result(producer.send("t", b"x"), 0.1)
        self.assertEqual(self.questions(), 0)

    def test_a_leader_of_one_of_its_partitions_is_not_given_up(self) -> None:
        """It is alive: only another one of the partitions was given to another broker."""
        self.broker.add("u", 2)
        producer, connection = self.connected()
        self.broker.silent = (ProduceAck,)
        for number in range(2):
            producer.send("u", b"x", partition=number).addErrback(lambda _: None)
        self.broker.leaders["u", 1] = 8
        self.run_for(10.0)
        self.assertFalse(connection.lost)

    def test_a_broker_that_chooses_is_not_doubted(self) -> None:
        """Behind a load balancer there is nobody else to ask: it is waited for until request_timeout."""
        producer, connection = self.connected(discover=False, request_timeout=20.0)
        self.broker.dead = 7
        producer.send("t", b"x").addErrback(lambda _: None)
        self.broker.leaders["t", 0] = 8
        self.run_for(19.9)
        self.assertFalse(connection.lost)
        self.assertEqual(self.questions(), 0)
        self.run_for(0.2)
        self.assertTrue(connection.lost)

    def test_a_broker_without_others_is_waited_for(self) -> None:
        """The client knows of no other broker: it waits for request_timeout."""
        self.broker.alone = True
        producer, connection = self.connected(request_timeout=20.0)
        self.broker.dead = 7
        producer.send("t", b"x").addErrback(lambda _: None)
        self.run_for(19.9)
        self.assertFalse(connection.lost)
        self.assertEqual(self.questions(), 0)
        self.run_for(0.2)
        self.assertTrue(connection.lost)

    def test_a_closed_producer_asks_no_more(self) -> None:
        """No call stays on the clock."""
        producer, _ = self.connected(delivery_timeout=0.5)
        self.broker.dead = 7
        producer.send("t", b"x").addErrback(lambda _: None)
        self.run_for(0.1)
        closing: Deferred[Any] = producer.close(0.1)
        self.run_for(1.0)
        self.successResultOf(closing)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class AnswerDuringCheckTests(SynchronousTestCase):
    """``LeaderChecks``, with a request that was sent at time 0 and an answer of the other broker that takes long."""

    def setUp(self) -> None:
        """Wait until the first check is under way."""
        self.clock = Clock()
        self.since: float | None = 0.0
        self.checks: list[Deferred[bool]] = []
        self.given_up: list[float] = []

        async def check() -> bool:
            self.checks.append(Deferred())
            return await self.checks[-1]

        def give_up() -> None:
            self.given_up.append(self.clock.seconds())

        self.leader_checks = LeaderChecks(self.clock, lambda: self.since, check, give_up)
        self.leader_checks.asked()
        self.clock.advance(2.5)
        self.assertEqual(len(self.checks), 1)

    def test_a_broker_that_still_has_not_answered(self) -> None:
        """It is given up."""
        self.checks[0].callback(True)
        self.assertEqual(self.given_up, [2.5])

    def test_a_broker_that_has_answered_meanwhile(self) -> None:
        """It lives, and is not given up."""
        self.since = None
        self.checks[0].callback(True)
        self.assertEqual(self.given_up, [])

    def test_a_broker_that_has_been_asked_again_meanwhile(self) -> None:
        """It lives as well."""
        self.since = 2.0
        self.checks[0].callback(True)
        self.assertEqual(self.given_up, [])

    def test_the_checks_become_rarer(self) -> None:
        """In 30 seconds there are eight or nine, and in the first nine seconds no gap of more than 2.5."""
        for _ in range(275):
            self.clock.advance(0.1)
        self.assertIn(len(self.checks), (8, 9))
        self.leader_checks.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_check_that_fails(self) -> None:
        """It says nothing; a bug in it is logged."""
        self.checks[0].errback(BrokerUnavailable("the other one is away, too"))
        self.assertEqual(self.given_up, [])
        self.clock.advance(2.0)
        self.checks[1].errback(ZeroDivisionError())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class ConsumerCheckTests(ProducerTestCase):
    """Fetches of consumers."""

    def consume(self, **settings: Any) -> list[bytes | None]:
        """Read the topic with a consumer; return the list to which payloads are added."""
        given: dict[str, Any] = {"start": "earliest", "random": lambda: 0.5, **settings}
        consumer = Consumer("model:6667", reactor=self.clock, connect=self.broker.connect, **given)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams("t", 1)
        got: list[bytes | None] = []

        async def read() -> None:
            async for message in stream:
                got.append(message.payload)

        Deferred.fromCoroutine(read()).addErrback(lambda _: None)
        self.run_for(1.0)
        return got

    def test_a_reader_goes_on_at_the_next_leader(self) -> None:
        """A dead leader is given up after the wait of the fetch, and then as a producer does."""
        got = self.consume()
        self.broker.dead = 7
        self.run_for(0.6)
        self.broker.leaders["t", 0] = 8
        self.log.data += encode_set([Message(b"x")])
        self.run_for(3.6)
        self.assertEqual(got, [b"x"])

    def test_a_fetch_that_waits_is_not_doubted(self) -> None:
        """The broker holds it back for max_wait, as it was told to."""
        self.consume(max_wait=20.0)
        self.broker.requests.clear()
        self.run_for(60.0)
        self.assertGreaterEqual({FetchWait}, {type(each) for each in self.broker.requests})
