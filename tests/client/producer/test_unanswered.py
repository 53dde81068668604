"""Tests of producers with acks=0, whose requests have no answers."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.logger import formatEvent, globalLogPublisher

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Messages
from logd.errors import ClientClosed, MessageTooLarge
from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import Produce
from tests.client.producers import ProducerTestCase


class UnansweredTests(ProducerTestCase):
    """Producers with acks=0."""

    def test_a_send_fires_when_it_is_written(self) -> None:
        """The request is the one of 0.7, and nothing is known of ids."""
        sent = self.result(self.producer(acks=0).send("t", [b"1", b"2"]))
        self.assertEqual(sent, Sent("t", 0, -1, -1))
        self.assertIsInstance(self.broker.requests[-1], Produce)

    def test_a_message_can_have_its_own_request(self) -> None:
        """With batch_messages=1 the order holds through the slow way and the fast one."""
        producer = self.producer(acks=0, batch_messages=1)
        for number in range(10):
            producer.send("t", b"%d" % number)
        self.run_for()
        for number in range(10, 20):
            self.successResultOf(producer.send("t", b"%d" % number))
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(20)])
        self.assertEqual(len([each for each in self.broker.requests if isinstance(each, Produce)]), 20)

    def test_a_message_of_only_a_payload_is_kept_as_that(self) -> None:
        """In whatever form it is sent: the payloads of a write are encoded in one call."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"0"))
        forms: list[Messages] = [b"1", Message(b"2"), MessageSet([Message(b"3")]), Message(b"4")]
        others: list[Messages] = [
            Message(b"5", timestamp=5),
            Message(b"6", headers=[("name", b"")]),
            MessageSet([Message(b"7", key=b"k")]),
        ]
        encode = mock.Mock(wraps=loops.encode_payload_frames)
        self.patch(loops, "encode_payload_frames", encode)
        for form in (*forms, *others):
            self.successResultOf(producer.send("t", form, partition=0))
        self.run_for()
        self.assertEqual([given.args[1] for given in encode.call_args_list], [[b"1", b"2", b"3", b"4"]])
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(8)])

    def test_order_holds_where_messages_take_both_paths(self) -> None:
        """A set, and a message with a key, close the fast path of the payloads behind them for a moment."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"0"))
        wanted = [b"0"]
        for number in range(1, 60):
            name = b"%d" % number
            if number % 7 == 3:
                producer.send("t", [name, name + b"a"], partition=0)
                wanted.append(name)
                name += b"a"
            elif number % 5 == 3:
                producer.publish("t", name, b"key", partition=0)
            elif number % 2:
                self.assertTrue(producer.publish("t", name, partition=0))
            else:
                producer.send("t", name, partition=0)
            wanted.append(name)
            if number % 11 == 0:
                self.run_for(0.01)
        producer.flush()
        self.run_for()
        self.assertEqual(self.log.payloads(), wanted)

    def test_a_message_above_the_limit_takes_the_way_that_refuses_it(self) -> None:
        """The fast path looks at each size; the largest message that is allowed passes."""
        producer = self.producer(acks=0, batch_messages=1, message_bytes=100)
        self.result(producer.send("t", b"0"))
        for size in (86, 90, 95, 101):
            for way in range(2):
                self.assertTrue(producer.publish("t", b"1", partition=0))
                if size <= 95:
                    producer.publish("t", bytes(size), partition=0)
                elif way:
                    self.failureResultOf(producer.send("t", bytes(size), partition=0), MessageTooLarge)
                else:
                    self.assertRaises(MessageTooLarge, producer.publish, "t", bytes(size), partition=0)
        self.run_for()
        self.assertEqual(
            [len(each or b"") for each in self.log.payloads()], [1, 1, 86, 1, 86, 1, 90, 1, 90, 1, 95, 1, 95, 1, 1]
        )

    def test_a_closed_producer_takes_nothing(self) -> None:
        """Not even a message that needs no looking for its partition."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"0"))
        self.assertTrue(producer.publish("t", b"1", partition=0))
        producer.close()
        self.assertRaises(ClientClosed, producer.publish, "t", b"2", partition=0)
        self.failureResultOf(producer.send("t", b"2", partition=0), ClientClosed)
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"0", b"1"])

    def test_sends_wait_while_the_connection_is_full(self) -> None:
        """The order holds when it takes bytes again."""
        for batch in (1, 100):
            with self.subTest(batch=batch):
                self.log.data.clear()
                producer = self.producer(acks=0, batch_messages=batch)
                self.result(producer.send("t", b"a"))
                producer.send("t", b"b")
                (connection,) = self.broker.connections[-1:]
                connection.writable = False
                waiting = producer.send("t", b"c")
                self.run_for()
                if batch == 1:
                    self.assertFalse(producer.has_room)
                    self.assertNoResult(producer.ready())
                self.assertNoResult(waiting)
                connection.drained()
                self.result(waiting)
                self.result(producer.send("t", b"d"))
                self.assertEqual(self.log.payloads(), [b"a", b"b", b"c", b"d"])

    def test_unwritten_messages_go_on_the_next_connection(self) -> None:
        """Frames wait for the end of the reactor's turn, and may miss the connection that is lost in it."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        self.broker.lose_all()
        self.result(producer.send("t", b"c"), 1.0)
        self.assertEqual(self.log.payloads(), [b"a", b"b", b"c"])

    def test_close_writes_waiting_frames_first(self) -> None:
        """Frames wait for the end of the reactor's turn, which may be after the call of close."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        closing = producer.close()
        self.run_for()
        self.successResultOf(closing)
        self.assertEqual(self.log.payloads(), [b"a", b"b"])

    def test_close_gives_up_unwritable_frames(self) -> None:
        """A log line counts the lost messages, and no call is made again and again behind the close."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        self.broker.up = False
        self.broker.lose_all()
        seen: list[Any] = []
        observer: Any = seen.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        later = self.clock.callLater
        made: list[float] = []

        def counting(delay: float, call: Any, *given: Any) -> Any:
            made.append(delay)
            if len(made) > 1000:
                raise AssertionError("calls are made without end")
            return later(delay, call, *given)

        self.patch(self.clock, "callLater", counting)
        closing = producer.close(1.0)
        self.run_for(5.0)
        self.successResultOf(closing)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertLess(len(made), 100)
        (line,) = [formatEvent(each) for each in seen if "the producer was closed" in formatEvent(each)]
        self.assertIn("lost 1 message with acks=0", line)

    def test_waiting_frames_are_written_once(self) -> None:
        """Each flush meanwhile must not add a wait of its own for the connection."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        self.broker.up = False
        self.broker.lose_all()
        for _ in range(20):
            producer.flush()
            self.run_for(0.05)
        self.broker.up = True
        self.run_for(10.0)
        self.assertEqual(self.log.payloads(), [b"a", b"b"])
        producer.close()
        self.run_for()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_late_metadata_does_not_wake_a_closed_producer(self) -> None:
        """A queue that went on would make connections that are never closed."""
        producer = self.producer(acks=0)
        self.result(producer.send("t", b"a"))
        (queue,) = producer._router.all_queues()
        producer.close()
        self.run_for()
        woken: list[Any] = []
        queue.found(woken.append)
        self.assertEqual((woken, queue.take()), ([], None))
