"""Tests of logd.client.producer and its parts, against a broker in memory and a clock that stands still."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.partitioner import KeyedPartitioner
from logd.client.pending import Sent
from logd.client.producer import Producer
from logd.errors import (
    ClientClosed,
    DeliveryFailed,
    InvalidMessage,
    InvalidTopic,
    MessageTooLarge,
    ProducerBufferFull,
    StorageFull,
    WireError,
    WrongPartition,
)
from logd.protocol.legacy_requests import Produce
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.messageset import MessageSet
from logd.protocol.metadata import Metadata
from logd.protocol.produce_ack import ProduceAck
from tests.client.model import ModelBroker, run


class ProducerCase(SynchronousTestCase):
    """A model broker and producers of it."""

    def setUp(self) -> None:
        """A broker with one topic of one partition."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.log = self.broker.add("t")[0]

    def producer(self, **settings: Any) -> Producer:
        """A producer of the model."""
        given = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5, **settings}
        return Producer("model:6667", **given)

    def run_for(self, seconds: float = 0.1) -> None:
        """Let time pass."""
        run(self.clock, seconds)

    def result(self, deferred: Deferred[Sent], seconds: float = 0.1) -> Sent:
        """What a send fires with."""
        self.run_for(seconds)
        return self.successResultOf(deferred)

    def sets(self) -> list[int]:
        """The number of messages in each set that was sent."""
        return [
            len(decode_set(part.message_set).messages)
            for request in self.broker.requests
            if isinstance(request, ProduceAck)
            for part in request.parts
        ]


class SendTests(ProducerCase):
    """What send takes, and what it fires with."""

    def test_tells_the_place(self) -> None:
        """The first id and the id after the last are those of this set alone, though it shared a batch."""
        producer = self.producer()
        first, second = producer.send("t", [b"a", b"bb"]), producer.send("t", b"ccc")
        self.assertEqual(self.result(first), Sent("t", 0, 0, 21))
        self.assertEqual(self.result(second), Sent("t", 0, 21, 33))
        self.assertEqual(self.sets(), [3])

    def test_takes_messages_in_every_form(self) -> None:
        """A message, bytes, a set, a list and a generator of either."""
        producer = self.producer()
        forms: tuple[Any, ...] = (Message(b"1"), b"2", MessageSet([Message(b"3")]), [b"4", Message(b"5")], iter([b"6"]))
        for messages in forms:
            producer.send("t", messages)
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"1", b"2", b"3", b"4", b"5", b"6"])

    def test_refuses_what_is_no_message(self) -> None:
        """Text is not bytes."""
        self.assertRaises(TypeError, self.producer().send, "t", ["text"])

    def test_empty_set(self) -> None:
        """Nothing to send is sent at once."""
        self.assertEqual(self.successResultOf(self.producer().send("t", [])), Sent("t", -1))

    def test_key_of_bytes(self) -> None:
        """For a payload given as bytes, the key is the message's key."""
        self.result(self.producer().send("t", b"v", key=b"k"))
        self.assertEqual(decode_set(bytes(self.log.data)).messages[0].key, b"k")

    def test_creates_topics(self) -> None:
        """A topic that does not exist is made by the first send to it; sends meanwhile keep their order."""
        producer = self.producer()
        for payload in (b"1", b"2", b"3"):
            producer.send("new", payload)
        self.run_for()
        self.assertEqual(self.broker.logs["new"][0].payloads(), [b"1", b"2", b"3"])

    def test_bad_topic_name(self) -> None:
        """A name that no topic can have fails at once."""
        self.failureResultOf(self.producer().send("a/b", b""), InvalidTopic)

    def test_missing_partition(self) -> None:
        """A partition that the topic does not have fails, and does not wait for it to appear."""
        sending = self.producer().send("t", b"", partition=3)
        self.run_for()
        self.failureResultOf(sending, WrongPartition)

    def test_connects_only_when_needed(self) -> None:
        """Making a producer makes no connection."""
        self.producer()
        self.run_for()
        self.assertEqual(self.broker.connections, [])


class PartitionTests(ProducerCase):
    """Where messages go."""

    def setUp(self) -> None:
        """A topic of three partitions."""
        super().setUp()
        self.logs = self.broker.add("p", 3)

    def test_each_message_by_its_key(self) -> None:
        """A set of messages with keys is split, in order within each partition; Sent names every part."""
        messages = [Message(b"%d" % number, key=b"%d" % (number % 5)) for number in range(50)]
        sent = self.result(self.producer().send("p", MessageSet(messages)))
        keyed = KeyedPartitioner()
        for number, log in self.logs.items():
            mine = [m.payload for m in messages if keyed.choose("p", m.key, (0, 1, 2)) == number]
            self.assertEqual(log.payloads(), mine)
        self.assertEqual(
            sorted((part.partition, part.first_id, part.next_id) for part in sent.parts),
            [(number, 0, log.end) for number, log in self.logs.items() if log.end],
        )

    def test_a_key_for_the_set(self) -> None:
        """With a key of the set all of it goes to one partition."""
        sent = self.result(self.producer().send("p", [Message(b"a"), Message(b"b", key=b"x")], key=b"k"))
        self.assertEqual(sent.partition, KeyedPartitioner().choose("p", b"k", (0, 1, 2)))
        self.assertEqual(len(self.logs[sent.partition].payloads()), 2)

    def test_a_function_decides(self) -> None:
        """A function of the application's own is asked with topic, key and partitions."""
        asked: list[Any] = []

        def choose(topic: str, key: bytes | None, partitions: Any) -> int:
            asked.append((topic, key, tuple(partitions)))
            return 2

        self.assertEqual(self.result(self.producer(partitioner=choose).send("p", b"")).partition, 2)
        self.assertEqual(asked, [("p", None, (0, 1, 2))])

    def test_a_failing_function_fails_its_send(self) -> None:
        """What the partitioner raises is the sender's to see, and the next send is not harmed."""
        producer = self.producer(partitioner=lambda topic, key, partitions: 1 // len(key or b""))
        sending = producer.send("p", b"")
        self.run_for()
        self.failureResultOf(sending, ZeroDivisionError)
        self.assertEqual(self.result(producer.send("p", b"", partition=1)).partition, 1)

    def test_behind_a_load_balancer(self) -> None:
        """With discover=False no metadata is read, one address is used, and the broker picks the partition."""
        producer = self.producer(discover=False)
        self.assertEqual(self.result(producer.send("p", Message(b"a", key=b"k"))), Sent("p", 0, 0, 25))
        self.assertFalse([request for request in self.broker.requests if isinstance(request, Metadata)])
        (request,) = self.broker.requests
        self.assertEqual(request.parts[0].partition, -1)


class BatchTests(ProducerCase):
    """What travels together."""

    def test_linger(self) -> None:
        """With linger a batch waits for company, and leaves when the time is over."""
        producer = self.producer(linger=0.05)
        producer.send("t", b"1")
        self.run_for(0.04)
        producer.send("t", b"2")
        self.assertEqual(self.sets(), [])
        self.run_for(0.02)
        self.assertEqual(self.sets(), [2])

    def test_flush_does_not_linger(self) -> None:
        """flush sends at once, and fires when all is acknowledged."""
        producer = self.producer(linger=10.0)
        sending = producer.send("t", b"1")
        self.run_for()
        flushed = producer.flush()
        self.assertNoResult(flushed)
        self.run_for()
        self.successResultOf(flushed)
        self.successResultOf(sending)

    def test_flush_does_not_wait_for_later_sends(self) -> None:
        """flush is about what was sent before it."""
        producer = self.producer(max_in_flight=1, batch_messages=1)
        producer.send("t", b"1")
        self.run_for(0.0025)
        flushed = producer.flush()
        for _ in range(100):
            producer.send("t", b"2")
        self.run_for(0.003)
        self.successResultOf(flushed)
        self.assertGreater(producer.buffered_bytes, 0)

    def test_count(self) -> None:
        """A batch takes no set that would make it more messages than allowed; a set that has more goes alone."""
        producer = self.producer(batch_messages=3, linger=1.0)
        for count in (2, 2, 1, 5):
            producer.send("t", [b""] * count)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 3, 5])

    def test_bytes(self) -> None:
        """A batch takes no set that would make it larger than allowed."""
        producer = self.producer(batch_bytes=100, linger=1.0)
        for _ in range(5):
            producer.send("t", b"x" * 31)
        self.run_for(0.1)
        self.assertEqual(self.sets(), [2, 2])

    def test_splits_a_large_set(self) -> None:
        """A set above batch_bytes travels in several, and its Sent names them all."""
        sent = self.result(self.producer(batch_bytes=100).send("t", [b"%02d" % n * 10 for n in range(10)]))
        self.assertEqual(self.log.payloads(), [b"%02d" % n * 10 for n in range(10)])
        self.assertTrue(all(count <= 3 for count in self.sets()), self.sets())
        self.assertEqual((sent.parts[0].first_id, sent.parts[-1].next_id), (0, self.log.end))

    def test_a_message_too_large(self) -> None:
        """One message above message_bytes fails its set, of which nothing is sent."""
        producer = self.producer(message_bytes=50, batch_bytes=60)
        sending = producer.send("t", [b"fits", b"x" * 51])
        self.run_for()
        self.failureResultOf(sending, MessageTooLarge)
        self.result(producer.send("t", b"x" * 50))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"x" * 50], 0))

    def test_compression(self) -> None:
        """The producer's compression is for whole batches, of several sends; a set's own is for that set alone."""
        producer = self.producer(compression="zstd")
        sends = [producer.send("t", [b"a" * 1000]) for _ in range(3)]
        own = producer.send("t", MessageSet([Message(b"b" * 1000)], "gzip"))
        self.run_for()
        self.assertEqual(len({self.successResultOf(send) for send in sends}), 1)
        self.successResultOf(own)
        self.assertLess(self.log.end, 300)
        self.assertEqual(self.log.payloads(), [b"a" * 1000] * 3 + [b"b" * 1000])
        self.assertEqual([self.log.data[5] & 3, len(self.log.boundaries())], [3, 3])

    def test_compression_that_gains_nothing(self) -> None:
        """Where a wrapper would be no smaller the batch stays plain."""
        self.result(self.producer(compression="gzip").send("t", b"x"))
        self.assertEqual(bytes(self.log.data[:5]), b"\0\0\0\x06\0")

    def test_partitions_share_requests(self) -> None:
        """Batches for several partitions of one broker travel in one request."""
        self.broker.add("p", 3)
        producer = self.producer()
        for number in range(3):
            producer.send("p", b"x", partition=number)
        self.run_for()
        (request,) = [each for each in self.broker.requests if isinstance(each, ProduceAck)]
        self.assertEqual(len(request.parts), 3)


class TroubleTests(ProducerCase):
    """Refusals, lost connections, silence."""

    def refuse_once(self, *errors: WireError | None) -> None:
        """The next sets are answered so."""
        answers = list(errors)
        self.broker.refuse = lambda part: answers.pop(0) if answers else None

    def test_order_through_refusals(self) -> None:
        """A refused set is sent again before those behind it."""
        self.refuse_once(None, StorageFull("full"))
        producer = self.producer(batch_messages=1)
        sends = [producer.send("t", b"%d" % number) for number in range(8)]
        self.run_for(1.0)
        self.assertEqual([self.successResultOf(send).partition for send in sends], [0] * 8)
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(8)])

    def test_refused_for_good(self) -> None:
        """An error that does not pass fails that set only; those behind it are delivered."""
        self.refuse_once(None, InvalidMessage("bad"))
        producer = self.producer(batch_messages=1)
        sends = [producer.send("t", b"%d" % number) for number in range(4)]
        self.run_for(1.0)
        self.failureResultOf(sends[1], InvalidMessage)
        self.assertEqual(self.log.payloads(), [b"0", b"2", b"3"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_lost_connection(self) -> None:
        """What was not acknowledged is sent again on the next connection; nothing is lost, the order holds."""
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

    def test_gives_up_in_time(self) -> None:
        """What cannot be delivered within delivery_timeout fails with the last error as its cause."""
        self.broker.up = False
        sends = [self.producer(delivery_timeout=5.0).send("t", b"x")]
        self.run_for(6.5)
        self.assertIsInstance(self.failureResultOf(sends[0]).value, DeliveryFailed)

    def test_gives_up_a_set_that_was_tried(self) -> None:
        """The same for a set that keeps being refused; room is given back, and later sets are delivered."""
        self.broker.refuse = lambda part: StorageFull("full")
        producer = self.producer(delivery_timeout=5.0, retry_delay_limit=0.5)
        sending = producer.send("t", b"x")
        self.run_for(7.0)
        failure = self.failureResultOf(sending, DeliveryFailed)
        self.assertIsInstance(failure.value.__cause__, StorageFull)
        self.assertEqual(producer.buffered_bytes, 0)
        self.broker.refuse = lambda part: None
        self.result(producer.send("t", b"y"), 2.0)

    def test_silence(self) -> None:
        """A broker that does not answer in time loses the connection, and the set is sent on the next one."""
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

    def test_broker_comes_late(self) -> None:
        """A send waits for a broker that is not there yet."""
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
    def test_order_under_any_schedule(self, schedule: list[tuple[str, int]]) -> None:
        """Whatever is refused or lost when: first occurrences are in order, and what was acknowledged is there."""
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


class RoomTests(ProducerCase):
    """Bounded memory."""

    def test_waits_for_room(self) -> None:
        """While buffer_bytes are held further sends wait, in order; what is held stays bounded."""
        producer = self.producer(buffer_bytes=200, batch_messages=1, max_in_flight=1)
        sends = [producer.send("t", b"%03d" % number + b"x" * 50) for number in range(50)]
        most = 0
        for _ in range(400):
            self.clock.advance(0.001)
            most = max(most, producer.buffered_bytes)
        self.assertLess(most, 400)
        for send in sends:
            self.successResultOf(send)
        self.assertEqual([p[:3] for p in self.log.payloads() if p], [b"%03d" % number for number in range(50)])

    def test_waiting_is_bounded(self) -> None:
        """One send more than may wait fails at once."""
        producer = self.producer(buffer_bytes=10, max_waiting=2)
        sends = [producer.send("t", b"x" * 20) for _ in range(4)]
        self.failureResultOf(sends[3], ProducerBufferFull)
        self.run_for(1.0)
        for send in sends[:3]:
            self.successResultOf(send)

    def test_ready(self) -> None:
        """A loop that waits for ready before each send never fills the line."""
        producer = self.producer(buffer_bytes=100, max_waiting=0)
        done: list[int] = []

        async def loop() -> None:
            for number in range(100):
                await producer.ready()
                producer.send("t", b"%d" % number)
            done.append(1)

        Deferred.fromCoroutine(loop())
        self.run_for(2.0)
        self.assertEqual((done, len(self.log.payloads())), ([1], 100))

    def test_cancel_while_waiting_for_room(self) -> None:
        """A send that is cancelled in the line is never sent and holds up nobody."""
        producer = self.producer(buffer_bytes=10)
        producer.send("t", b"x" * 20)
        second, third = producer.send("t", b"2"), producer.send("t", b"3")
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.result(third, 1.0)
        self.assertEqual(self.log.payloads(), [b"x" * 20, b"3"])


class CancelTests(ProducerCase):
    """Cancelling a send."""

    def test_before_it_left(self) -> None:
        """What lingers is taken back, and gives its room back."""
        producer = self.producer(linger=1.0)
        self.run_for()
        first, second = producer.send("t", b"1"), producer.send("t", b"2")
        self.run_for(0.1)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.result(second, 2.0), Sent("t", 0, 0, 10))
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"2"], 0))

    def test_the_only_one_of_its_batch(self) -> None:
        """A batch that nobody wants any more is not sent."""
        producer = self.producer(linger=1.0)
        only = producer.send("t", b"1")
        self.run_for(0.1)
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for(2.0)
        self.assertEqual(self.sets(), [])

    def test_while_the_topic_is_unknown(self) -> None:
        """A send whose topic is still looked for is forgotten."""
        producer = self.producer()
        only = producer.send("t", b"1")
        only.cancel()
        self.failureResultOf(only, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([], 0))

    def test_after_it_left(self) -> None:
        """Later it only stops the waiting: the set is delivered all the same."""
        producer = self.producer()
        self.result(producer.send("t", b"0"))
        sending = producer.send("t", b"1")
        self.clock.advance(0)
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.run_for()
        self.assertEqual((self.log.payloads(), producer.buffered_bytes), ([b"0", b"1"], 0))


class CloseTests(ProducerCase):
    """close."""

    def test_delivers_first(self) -> None:
        """What was sent before is delivered, then the connections end."""
        producer = self.producer(linger=10.0)
        sending = producer.send("t", b"1")
        self.run_for(0.1)
        closing = producer.close()
        self.run_for(0.1)
        self.successResultOf(closing)
        self.successResultOf(sending)
        self.assertTrue(all(connection.lost for connection in self.broker.connections))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_is_bounded(self) -> None:
        """What cannot be delivered in time fails with ClientClosed, wherever it waits, and no timer is left."""
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

    def test_without_a_broker(self) -> None:
        """A producer that never reached a broker closes too."""
        self.broker.up = False
        producer = self.producer()
        sending = producer.send("t", b"1")
        self.run_for(1.0)
        closing = producer.close(timeout=0.5)
        self.run_for(10.0)
        self.successResultOf(closing)
        self.failureResultOf(sending, ClientClosed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_is_final(self) -> None:
        """Later sends fail."""
        producer = self.producer()
        self.successResultOf(producer.close())
        self.failureResultOf(producer.send("t", b""), ClientClosed)
        self.failureResultOf(producer.ready(), ClientClosed)


class UnansweredTests(ProducerCase):
    """acks=0."""

    def test_fires_when_written(self) -> None:
        """The request of 0.7 is used, and nothing is known of ids."""
        sent = self.result(self.producer(acks=0).send("t", [b"1", b"2"]))
        self.assertEqual(sent, Sent("t", 0, -1, -1))
        self.assertIsInstance(self.broker.requests[-1], Produce)

    def test_one_message_a_request(self) -> None:
        """With batch_messages=1 each message travels in a request of its own, in order, by either way."""
        producer = self.producer(acks=0, batch_messages=1)
        for number in range(10):
            producer.send("t", b"%d" % number)
        self.run_for()
        for number in range(10, 20):
            self.successResultOf(producer.send("t", b"%d" % number))
        self.run_for()
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(20)])
        self.assertEqual(len([each for each in self.broker.requests if isinstance(each, Produce)]), 20)

    def test_back_pressure(self) -> None:
        """While the connection takes no more bytes sends wait; the order holds when it does again."""
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

    def test_not_connected(self) -> None:
        """What was not written when the connection was lost is written on the next one."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        self.broker.lose_all()
        self.result(producer.send("t", b"c"), 1.0)
        self.assertEqual(self.log.payloads(), [b"a", b"b", b"c"])

    def test_close_writes_first(self) -> None:
        """close does not forget frames that wait for the end of the reactor's turn."""
        producer = self.producer(acks=0, batch_messages=1)
        self.result(producer.send("t", b"a"))
        producer.send("t", b"b")
        closing = producer.close()
        self.run_for()
        self.successResultOf(closing)
        self.assertEqual(self.log.payloads(), [b"a", b"b"])
