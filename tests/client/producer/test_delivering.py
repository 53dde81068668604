"""Tests of how logd.client.producer.producer delivers: trouble, bounds of memory, and close."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred

from logd.client.producer.pending_send import Sent
from logd.errors import (
    BrokerUnavailable,
    ClientClosed,
    DeliveryFailed,
    InvalidMessage,
    ProducerBufferFull,
    StorageFull,
    TopicCreationDisabled,
    WireError,
)
from logd.protocol.message import Message
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelBroker, run
from tests.client.producers import ProducerTestCase


class TroubleTests(ProducerTestCase):
    """Producers that meet refusals, lost connections and silence."""

    def refuse_once(self, *errors: WireError | None) -> None:
        """Answer the next sets with these errors; None accepts a set."""
        answers = list(errors)
        self.broker.refuse = lambda part: answers.pop(0) if answers else None

    def test_a_deleted_topic_is_asked_for_no_more_often_than_others(self) -> None:
        """A producer may have sent to hundreds that are gone by now, one for each day perhaps."""
        self.broker.add("old")
        producer = self.producer(metadata_age=10.0, linger=3600.0)
        for topic in ("old", "t"):
            producer.send(topic, b"first", partition=0)
            producer.flush()
            self.run_for(1.0)
        self.broker.logs.pop("old")
        producer.publish("t", b"lingers", partition=0)
        self.broker.requests.clear()
        self.run_for(60.0)
        asked = [each.topics for each in self.broker.requests if isinstance(each, Metadata)]
        self.assertEqual({topics: 4 < asked.count(topics) < 8 for topics in set(asked)}, {("old",): True, ("t",): True})

    def test_a_refused_set_is_sent_again_before_later_ones(self) -> None:
        """The order of the partition holds."""
        self.refuse_once(None, StorageFull("full"))
        producer = self.producer(batch_messages=1)
        sends = [producer.send("t", b"%d" % number) for number in range(8)]
        self.run_for(1.0)
        self.assertEqual([self.successResultOf(send).partition for send in sends], [0] * 8)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(8)])

    def test_a_lasting_refusal_fails_one_set_alone(self) -> None:
        """Sets behind it are delivered without a pause, since waiting would change nothing."""
        self.refuse_once(None, InvalidMessage("bad"))
        producer = self.producer(batch_messages=1)
        sends = [producer.send("t", b"%d" % number) for number in range(4)]
        self.run_for(0.03)  # too short for a pause between attempts
        self.failureResultOf(sends[1], InvalidMessage)
        self.assertEqual(self.log.payloads(), [b"0", b"2", b"3"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_batch_that_cannot_be_encoded_fails_alone(self) -> None:
        """``_replace`` makes a message without the checks; nothing behind it, and no other topic, may wait for ever."""
        kinds: list[dict[str, Any]] = [{}, {"format": "batch"}, {"acks": 0}]
        for kind in kinds:
            self.log.data.clear()
            producer = self.producer(batch_messages=1, **kind)
            bad = Message(b"bad")._replace(timestamp=1.5)  # type: ignore[arg-type]  # meant
            sends = [producer.send("t", each) for each in (b"0", [bad], b"2", b"3")]
            other = producer.send("u", b"4")
            self.run_for(1.0)
            self.failureResultOf(sends[1], InvalidMessage)
            for send in (sends[0], *sends[2:], other):
                self.successResultOf(send)
            self.assertEqual(self.log.payloads(), [b"0", b"2", b"3"], kind)
            self.assertEqual(producer.buffered_bytes, 0)

    def test_unacknowledged_sets_are_sent_again(self) -> None:
        """The next connection takes them; nothing is lost, and first occurrences are in order."""
        producer = self.producer(batch_messages=1)
        sends = [producer.send("t", b"%d" % number) for number in range(20)]
        for _ in range(3):
            self.run_for(0.0045)
            self.broker.lose_all()
            self.run_for(0.2)
        self.run_for(1.0)
        for send in sends:
            self.successResultOf(send)
        self.assertEqual(list(dict.fromkeys(self.log.payloads())), [b"%d" % number for number in range(20)])

    def test_an_undelivered_send_fails_in_time(self) -> None:
        """The last error before delivery_timeout is the cause of its failure."""
        self.broker.up = False
        sends = [self.producer(delivery_timeout=5.0).send("t", b"x")]
        self.run_for(6.5)
        error = self.failureResultOf(sends[0], DeliveryFailed).value
        self.assertIsInstance(error.__cause__, BrokerUnavailable)
        self.assertIn(str(error.__cause__), str(error))

    def test_a_set_refused_too_long_fails(self) -> None:
        """The room of the set is given back, and later sets are delivered."""
        self.broker.refuse = lambda part: StorageFull("full")
        producer = self.producer(delivery_timeout=5.0, retry_delay_limit=0.5)
        sending = producer.send("t", b"x")
        self.run_for(7.0)
        failure = self.failureResultOf(sending, DeliveryFailed)
        self.assertIsInstance(failure.value.__cause__, StorageFull)
        self.assertEqual(producer.buffered_bytes, 0)
        self.broker.refuse = lambda part: None
        self.result(producer.send("t", b"y"), 2.0)

    def test_a_silent_broker_loses_its_connection(self) -> None:
        """The set is sent again on the next one."""
        producer = self.producer(request_timeout=2.0)
        self.result(producer.send("t", b"1"))
        self.broker.silent = (ProduceAck,)
        sending = producer.send("t", b"2")
        self.run_for(1.9)
        self.assertEqual(len(self.broker.connections), 1)
        self.broker.silent = ()
        self.run_for(1.0)
        self.successResultOf(sending)
        self.assertEqual(len(self.broker.connections), 2)

    def test_refused_sets_follow_the_leader(self) -> None:
        """Twenty sets arrive once each and in order."""
        producer = self.producer(batch_messages=1, max_in_flight=5)
        sends = [producer.send("t", b"%d" % number) for number in range(20)]
        self.run_for(0.004)
        self.broker.leaders["t", 0] = 8
        self.run_for(1.0)
        for send in sends:
            self.successResultOf(send)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(20)])
        self.assertEqual([connection.id for connection in self.broker.connections], [7, 8])

    def test_metadata_is_read_again_with_age(self) -> None:
        """With acks=0 no answer tells that the leader has moved."""
        for batch in (1, 100):
            with self.subTest(batch=batch):
                self.broker.leaders["t", 0] = 7
                producer = self.producer(acks=0, batch_messages=batch, metadata_age=3.0)
                self.result(producer.send("t", b"1"))
                self.broker.leaders["t", 0] = 8
                for _ in range(60):
                    producer.send("t", b"x")
                    self.run_for(0.1)
                self.log.data.clear()
                self.result(producer.send("t", b"2"))
                self.assertEqual(self.log.payloads(), [b"2"])

    def test_a_topic_that_cannot_be_created_fails_its_sends(self) -> None:
        """A later send tries again."""
        self.broker.topic_errors["no"] = TopicCreationDisabled.code
        producer = self.producer()
        sends = [producer.send("no", b"x") for _ in range(3)]
        self.run_for()
        for send in sends:
            self.failureResultOf(send, TopicCreationDisabled)
        self.assertEqual(producer.buffered_bytes, 0)
        self.broker.topic_errors.clear()
        self.result(producer.send("no", b"x"))

    def test_an_answer_about_other_partitions_is_no_answer(self) -> None:
        """The connection is given up and the set sent again."""
        real = ModelBroker.answer

        def answer(broker: ModelBroker, request: Any, connection: Any) -> Any:
            response = real(broker, request, connection)
            return response._replace(parts=()) if isinstance(request, ProduceAck) else response

        self.patch(ModelBroker, "answer", answer)
        sending = self.producer().send("t", b"x")
        self.run_for(0.01)
        self.patch(ModelBroker, "answer", real)
        self.assertTrue(self.broker.connections[0].lost)
        self.result(sending, 1.0)

    def test_a_send_waits_for_an_absent_broker(self) -> None:
        """An application may start before its brokers."""
        self.broker.up = False
        sending = self.producer().send("t", b"x")
        self.run_for(3.0)
        self.broker.up = True
        self.run_for(8.0)
        self.successResultOf(sending)

    @settings(deadline=None, max_examples=40)
    @given(
        st.lists(st.tuples(st.sampled_from(["send", "lose", "full", "bad", "time"]), st.integers(1, 40)), max_size=40)
    )
    def test_the_order_holds_under_any_schedule(self, schedule: list[tuple[str, int]]) -> None:
        """First occurrences are in order, and all that was acknowledged is in the log."""
        self.setUp()
        answers: list[WireError] = []
        self.broker.refuse = lambda part: answers.pop() if answers else None
        producer = self.producer(batch_messages=2, retry_delay_limit=0.2)
        sends: dict[bytes, Deferred[Any]] = {}
        for action, amount in schedule:
            if action == "send":
                for _ in range(amount):
                    payload = b"%06d" % len(sends)
                    sends[payload] = producer.send("t", payload).addErrback(lambda failure: failure.type)
            elif action == "lose":
                self.broker.lose_all()
            elif action == "time":
                self.run_for(amount / 2000)
            else:
                answers.append(StorageFull("full") if action == "full" else InvalidMessage("bad"))
        run(self.clock, 15.0, step=0.01)
        payloads = list(dict.fromkeys(self.log.payloads()))
        self.assertEqual(payloads, sorted(payloads))
        for payload, sending in sends.items():
            outcome = self.successResultOf(sending)
            if outcome is not InvalidMessage:
                self.assertIsInstance(outcome, Sent)
                self.assertIn(payload, payloads)
        self.assertEqual(producer.buffered_bytes, 0)


class ProducerMemoryTests(ProducerTestCase):
    """The bounds of a producer's memory."""

    def test_sends_wait_while_the_buffer_is_full(self) -> None:
        """The order holds, and the bytes held stay bounded."""
        producer = self.producer(buffer_bytes=2000, batch_messages=1, max_in_flight=1)
        sends = [producer.send("t", b"%03d" % number + b"x" * 50) for number in range(50)]
        most = 0
        for _ in range(400):
            self.clock.advance(0.001)
            most = max(most, producer.buffered_bytes)
        self.assertLess(most, 4000)
        for send in sends:
            self.successResultOf(send)
        self.assertEqual([p[:3] for p in self.log.payloads() if p], [b"%03d" % number for number in range(50)])

    def test_messages_wait_for_an_answer_while_the_buffer_is_full(self) -> None:
        """They travel in larger sets then: many small ones would cost both sides more than the wait for an answer."""
        everyday, full = self.producer(), self.producer(buffer_bytes=5000)
        for producer, sets in ((everyday, [1] * 10), (full, [1] * 5 + [5])):
            self.result(producer.send("t", b"known"))
            self.broker.requests.clear()
            for _ in range(10):
                producer.send("t", b"x")
                self.clock.advance(0)
            self.run_for(1.0)
            self.assertEqual(self.sets(), sets)
            self.assertEqual(producer.buffered_bytes, 0)

    def test_one_waiting_send_too_many_fails_at_once(self) -> None:
        """An application that never waits must not fill the memory with waiting sends."""
        producer = self.producer(buffer_bytes=10, max_waiting=2)
        sends = [producer.send("t", b"x" * 20) for _ in range(4)]
        self.failureResultOf(sends[3], ProducerBufferFull)
        self.run_for(1.0)
        for send in sends[:3]:
            self.successResultOf(send)

    def test_a_loop_that_awaits_ready_is_never_refused(self) -> None:
        """With max_waiting=0 a send without room is refused, so ready alone keeps the loop going."""
        producer = self.producer(buffer_bytes=1000, max_waiting=0)
        done: list[int] = []

        async def loop() -> None:
            for number in range(100):
                await producer.ready()
                producer.send("t", b"%d" % number)
            done.append(1)

        Deferred.fromCoroutine(loop())
        self.run_for(2.0)
        self.assertEqual((done, len(self.log.payloads())), ([1], 100))

    def test_a_send_cancelled_while_waiting_is_never_sent(self) -> None:
        """Sends behind it in the queue are not held up."""
        producer = self.producer(buffer_bytes=10)
        producer.send("t", b"x" * 20)
        second, third = producer.send("t", b"2"), producer.send("t", b"3")
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.result(third, 1.0)
        self.assertEqual(self.log.payloads(), [b"x" * 20, b"3"])


class CloseTests(ProducerTestCase):
    """``Producer.close``."""

    def test_close_delivers_earlier_sends_first(self) -> None:
        """Messages that linger are sent at once, and then the connections end."""
        producer = self.producer(linger=10.0)
        sending = producer.send("t", b"1")
        self.run_for(0.1)
        closing = producer.close()
        self.run_for(0.1)
        self.successResultOf(closing)
        self.successResultOf(sending)
        self.assertTrue(all(connection.lost for connection in self.broker.connections))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_close_is_bounded_by_its_timeout(self) -> None:
        """Sends that are not delivered in time fail with ClientClosed, wherever they wait; no timer is left."""
        producer = self.producer(buffer_bytes=30)
        self.result(producer.send("t", b"0"))
        self.broker.silent = (ProduceAck,)
        sends = [producer.send("t", b"x" * 20) for _ in range(4)]
        sends.append(producer.send("unknown", b"x"))
        closing = producer.close(timeout=1.0)
        self.run_for(1.5)
        self.successResultOf(closing)
        for send in sends:
            self.failureResultOf(send, ClientClosed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_close_that_is_cancelled_fails_as_such(self) -> None:
        """While the connections close, too: an interrupted program asks for this error."""
        producer = self.producer()
        self.result(producer.send("t", b"1"))
        for link in producer._cluster._links.values():
            link.current.close = Deferred  # type: ignore[union-attr, method-assign]  # a connection that does not close
        closing = producer.close()
        self.run_for()
        closing.cancel()
        self.failureResultOf(closing, CancelledError)
        self.run_for(10.0)

    def test_a_producer_without_a_broker_closes(self) -> None:
        """Sends fail, and no attempt to connect goes on."""
        self.broker.up = False
        producer = self.producer()
        sending = producer.send("t", b"1")
        self.run_for(1.0)
        closing = producer.close(timeout=0.5)
        self.run_for(10.0)
        self.successResultOf(closing)
        self.failureResultOf(sending, ClientClosed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_sends_after_close_fail(self) -> None:
        """Calls of ready fail, too, so that a loop ends."""
        producer = self.producer()
        self.successResultOf(producer.close())
        self.failureResultOf(producer.send("t", b""), ClientClosed)
        self.failureResultOf(producer.ready(), ClientClosed)
