"""Tests of producers with ``audit=True``: what they stamp, count and publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logd.audit.event import AUDIT_TOPIC, AuditEvent, decode_event
from logd.client.producer.producer import Producer
from logd.errors import ConfigurationError, MessageTooLarge, PartitionOffline
from logd.protocol import loops
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProducePart
from tests.client.producers import ProducerTestCase

#: The time of day when the clock is at 0, at the beginning of a window.
BEGIN = 1_320_969_600_000


class ProducerAuditTests(ProducerTestCase):
    """Windows of ten seconds, of server web1."""

    def producer(self, **settings: Any) -> Producer:
        """Make an audited producer of the model."""
        given = {"audit": True, "audit_window": 10.0, "server": "web1", "time_ms": self.now, "format": "batch"}
        return super().producer(**(given | settings))

    def now(self) -> int:
        """Return the time of day by the test's clock."""
        return BEGIN + round(self.clock.seconds() * 1000)

    def events(self) -> list[AuditEvent]:
        """Return the events that the broker has."""
        logs = self.broker.logs.get(AUDIT_TOPIC, {})
        found = [message for log in logs.values() for message in decode_set(bytes(log.data), log.start).messages]
        for message in found:
            self.assertIsNotNone(message.timestamp)
        return [decode_event(message.payload) for message in found]

    def counts(self) -> list[tuple[int, int, int, bool]]:
        """Return start of the window in seconds, count, unsettled and opening of each event."""
        return [((e.window - BEGIN) // 1000, e.count, e.unsettled, e.open) for e in self.events()]

    def stored(self) -> list[Message]:
        """Return the messages in the log of topic t."""
        return decode_set(bytes(self.log.data)).messages

    def close(self, producer: Producer, timeout: float = 5.0) -> None:
        """Close a producer, for at most ``timeout`` seconds."""
        closing = producer.close(timeout)
        self.run_for(timeout + 0.5)
        self.successResultOf(closing)

    def test_messages_get_their_time_and_server(self) -> None:
        """Those that the application has given stay as they are."""
        for form in ("batch", "plain"):
            producer = self.producer(format=form)
            self.log.data.clear()
            producer.send("t", b"one")
            producer.send("t", [Message(b"two", timestamp=5), Message(b"three", headers=[("a", b"b")])])
            producer.send("t", Message(b"four", timestamp=6, headers=[("server", b"other")]))
            producer.send("t", b"five", key=b"k")
            producer.publish("t", b"six")
            producer.publish("t", b"seven", timestamp=7)
            now = self.now()
            self.run_for()
            self.close(producer)
            ours = ("server", b"web1")
            self.assertEqual(
                [(m.payload, m.key, m.timestamp, m.headers) for m in self.stored()],
                [
                    (b"one", None, now, (ours,)),
                    (b"two", None, 5, (ours,)),
                    (b"three", None, now, (("a", b"b"), ours)),
                    (b"four", None, 6, (("server", b"other"),)),
                    (b"five", b"k", now, (ours,)),
                    (b"six", None, now, (ours,)),
                    (b"seven", None, 7, (ours,)),
                ],
            )

    def test_only_what_is_missing_is_stamped(self) -> None:
        """A set whose messages have time and server stays as it is; in any other set each message is looked at."""
        producer = self.producer()
        audit = producer._unfinished.audit
        assert audit is not None
        server = ("server", b"other")
        stamped = tuple(Message(b"", timestamp=time, headers=[("a", b"b"), server]) for time in (5, 6))
        self.assertIs(audit.stamp_all(stamped), stamped)
        first = Message(b"", timestamp=5, headers=[server])
        self.assertIs(audit.stamp(first), first)
        for lacking in (Message(b"", headers=[server]), Message(b"", timestamp=5), Message(b"", headers=[("a", b"")])):
            for others in ((), stamped):
                one = audit.stamp_all((*others, lacking))[-1]
                self.assertIsNotNone(one.timestamp)
                self.assertEqual([name for name, _ in one.headers].count("server"), 1)
        self.assertEqual(audit.stamp_all(()), ())

    def test_a_window_is_announced_and_reported_at_its_end(self) -> None:
        """The count has messages, bytes of keys and values, and the positions of the first and last message."""
        producer = self.producer()
        producer.send("t", b"hello", key=b"k")
        self.run_for(1.0)
        self.assertEqual(self.counts(), [(0, 0, 0, True)])
        producer.send("t", [b"x", b"y"])
        self.run_for(10.0)
        self.assertEqual(self.counts(), [(0, 0, 0, True), (0, 3, 0, False)])
        event = self.events()[1]
        self.assertEqual((event.topic, event.origin, event.bytes, event.sequence), ("t", "web1", 8, 1))
        self.assertEqual((event.first, event.last), ({0: 0}, {0: self.log.end - 1}))
        self.run_for(30.0)
        self.assertEqual(len(self.events()), 2)
        self.close(producer)

    def test_a_batch_is_sealed_at_the_end_of_a_window(self) -> None:
        """A message of the next window is in another batch, though the first one lingers."""
        producer = self.producer(linger=8.0)
        self.run_for(5.0)
        producer.publish("t", b"before")
        self.run_for(5.0)
        producer.publish("t", b"behind")
        self.run_for(20.0)
        heads = loops.heads_of_set(bytes(self.log.data))
        self.assertEqual([(time - BEGIN) // 10_000 for _, _, time in heads], [0, 1])
        self.close(producer)
        self.assertEqual(sorted(each[:2] for each in self.counts() if each[1]), [(0, 1), (10, 1)])

    def test_closing_reports_what_was_counted(self) -> None:
        """A program may end before its window does."""
        for send in self.ways():
            self.broker.logs.clear()
            self.log = self.broker.add("t")[0]
            producer = self.producer(linger=1.0)
            send(producer)
            self.close(producer)
            self.assertEqual(len(self.stored()), 3)
            self.assertEqual(sum(count for _, count, _, _ in self.counts()), 3)

    def ways(self) -> list[Callable[[Producer], object]]:
        """Return functions that send three messages of five bytes."""
        return [
            lambda producer: producer.send("t", MessageSet([Message(b"hello")] * 3, compression="gzip")),
            lambda producer: [producer.publish("t", b"hello") for _ in range(3)],
            lambda producer: [producer.send("t", b"hello", partition=0) for _ in range(3)],
            lambda producer: producer.send("t", [b"hello"] * 3),
        ]

    def test_messages_are_counted_once_however_often_they_are_sent(self) -> None:
        """An answer that is lost makes a message come twice; the producer claims it once."""
        producer = self.producer(max_in_flight=2)
        self.run_for()
        producer.send("t", [b"hello"] * 5)
        losses = [True]

        def lose_answer(part: ProducePart) -> None:
            if part.topic == "t" and losses:
                losses.clear()
                self.broker.lose_all()

        self.broker.refuse = lose_answer
        self.run_for(5.0)
        self.assertEqual(len(self.stored()), 10)
        self.close(producer)
        self.assertEqual([each[1:3] for each in self.counts() if not each[3]], [(5, 0)])

    def test_messages_that_were_given_up_without_an_answer_are_unsettled(self) -> None:
        """They may be stored: a reader that finds them finds nothing twice."""
        producer = self.producer(delivery_timeout=2.0)
        producer.send("t", b"first")
        self.run_for(1.0)
        self.broker.refuse = lambda part: PartitionOffline("no") if part.topic == "t" else None
        self.assertEqual(len(self.counts()), 1)
        lost = producer.send("t", [b"x"] * 4)
        self.run_for(5.0)
        self.failureResultOf(lost)
        self.close(producer)
        self.assertEqual([each[1:3] for each in self.counts() if not each[3]], [(1, 4)])

    def test_messages_that_the_broker_refused_are_not_counted(self) -> None:
        """They are stored nowhere; halves of a batch that was too large are counted by themselves."""

        def refuse(part: ProducePart) -> MessageTooLarge | None:
            large = any(len(m.payload or b"") > 50 for m in decode_set(bytes(part.message_set)).messages)
            return MessageTooLarge("no") if large and part.topic == "t" else None

        for skipping in ("skip", "fail"):
            self.broker.logs.clear()
            self.log = self.broker.add("t")[0]
            self.broker.refuse = refuse
            producer = self.producer(on_too_large=skipping)
            producer.send("t", [b"a", b"b", b"x" * 60, b"c"]).addErrback(lambda _: None)
            self.run_for(5.0)
            self.close(producer)
            self.assertEqual(len(self.stored()), 3)
            self.assertEqual([each[1:3] for each in self.counts() if not each[3]], [(3, 0)])

    def test_an_event_never_claims_more_than_was_acknowledged(self) -> None:
        """A producer that ends without an answer leaves its window open."""
        producer = self.producer()
        producer.send("t", b"first")
        self.run_for(1.0)
        self.broker.silent = ()
        self.broker.up = False
        self.broker.lose_all()
        producer.send("t", b"second").addErrback(lambda _: None)
        self.close(producer, 1.0)
        self.assertEqual(self.counts(), [(0, 0, 0, True)])

    def test_events_are_published_once_the_brokers_take_them(self) -> None:
        """An event keeps its sequence, however often it is sent."""
        producer = self.producer(delivery_timeout=1.0)
        self.broker.refuse = lambda part: PartitionOffline("no") if part.topic == AUDIT_TOPIC else None
        producer.send("t", b"first")
        self.run_for(12.0)
        self.assertEqual(self.counts(), [])
        self.broker.refuse = lambda part: None
        self.run_for(10.0)
        self.assertEqual(self.counts(), [(0, 0, 0, True), (0, 1, 0, False)])
        self.assertEqual([event.sequence for event in self.events()], [0, 1])
        self.close(producer)

    def test_settings_that_cannot_be_audited_are_refused(self) -> None:
        """Nothing is acknowledged with acks=0."""
        self.assertRaises(ConfigurationError, self.producer, acks=0)
        self.assertRaises(ConfigurationError, self.producer, server="*")
        self.assertRaises(ConfigurationError, self.producer, server="a\nb")
