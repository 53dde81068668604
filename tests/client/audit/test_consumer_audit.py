"""Tests of consumers with ``audit=True``: what they count, beside what an audited producer has counted."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logd.audit.event import AUDIT_TOPIC, AuditEvent, Tier, decode_event
from logd.audit.reconciliation import Reconciliation
from logd.audit.verdicts import Verdict, judge
from logd.client.consumer.consumer import Consumer
from logd.errors import PartitionOffline
from logd.protocol.batch import encode_batch
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from tests.client.producers import ProducerTestCase

#: The time of day when the clock is at 0, at the beginning of a window.
BEGIN = 1_320_969_600_000


class ConsumerAuditTests(ProducerTestCase):
    """Windows of ten seconds."""

    def now(self) -> int:
        """Return the time of day by the test's clock."""
        return BEGIN + round(self.clock.seconds() * 1000)

    def consumer(self, **settings: Any) -> Consumer:
        """Return an audited consumer of the model."""
        given: dict[str, Any] = {"audit": True, "audit_window": 10.0, "server": "reader", "time_ms": self.now}
        given |= {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5}
        return Consumer("model:6667", **(given | settings))

    def produce(self, *sends: list[bytes], form: str = "batch") -> None:
        """Publish sets with an audited producer, one in each window, and close it."""
        settings = {"audit": True, "audit_window": 10.0, "server": "web1", "time_ms": self.now, "format": form}
        producer = self.producer(**settings)
        for payloads in sends:
            producer.send("t", payloads)
            self.run_for(10.0)
        self.ended(producer.close())

    def ended(self, deferred: Deferred[Any], seconds: float = 1.0) -> None:
        """Wait for a Deferred."""
        self.run_for(seconds)
        self.successResultOf(deferred)

    def read(self, consumer: Consumer, messages: int) -> None:
        """Read messages one by one."""
        (stream,) = consumer.create_message_streams("t", 1)
        for _ in range(messages):
            self.ended(stream.get())

    def events(self, tier: Tier = Tier.CONSUMED) -> list[AuditEvent]:
        """Return the events of a tier that the broker has."""
        log = self.broker.logs[AUDIT_TOPIC][0]
        events = [decode_event(message.payload) for message in decode_set(bytes(log.data)).messages]
        return [event for event in events if event.tier is tier]

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on what was consumed."""
        sums = Reconciliation(10_000)
        sums.add_all(self.events(Tier.PRODUCED) + self.events())
        return [each for each in judge(sums, self.now() + 1_000_000) if each.tier is Tier.CONSUMED]

    def test_all_that_was_produced_was_consumed(self) -> None:
        """Producer and consumer agree on counts, bytes and windows, in each format."""
        for form in ("batch", "plain"):
            self.setUp()
            self.produce([b"one", b"two"], [b"three"], form=form)
            consumer = self.consumer()
            self.read(consumer, 3)
            self.ended(consumer.close())
            verdicts = self.verdicts()
            self.assertEqual(
                [(each.expected, each.seen, each.differences) for each in verdicts], [(2, 2, ()), (1, 1, ())]
            )
            self.assertEqual(sum(event.bytes or 0 for event in self.events()), len(b"onetwothree"))

    def test_only_messages_that_were_handed_over_are_counted(self) -> None:
        """The rest of a batch goes to the next reader, which counts it."""
        self.produce([b"%d" % number for number in range(10)])
        consumer = self.consumer()
        self.read(consumer, 4)
        self.ended(consumer.close())
        self.assertEqual(sum(event.count for event in self.events()), 4)

    def test_a_message_of_a_batch_counts_in_the_window_of_the_batch(self) -> None:
        """A foreign producer's batch may span windows; all tiers count it by its newest time."""
        messages = [
            Message(b"a", timestamp=BEGIN),
            Message(b"b", timestamp=BEGIN + 25_000),
            Message(b"c", timestamp=BEGIN),
        ]
        self.log.data += encode_batch(messages, "gzip") + encode_batch(messages[:1])
        consumer = self.consumer()
        self.read(consumer, 4)
        self.ended(consumer.close())
        counts = {event.window - BEGIN: (event.origin, event.count) for event in self.events() if not event.open}
        self.assertEqual(counts, {0: ("", 1), 20_000: ("", 3)})

    def test_counts_are_published_at_a_window_s_end(self) -> None:
        """A consumer that goes on is counted too, and one that dies has said that it began."""
        self.produce([b"one"])
        begun = self.clock.seconds()
        consumer = self.consumer()
        (stream,) = consumer.create_message_streams("t", 1)
        self.ended(stream.get())
        waiting = stream.get()
        self.run_for(1.0)
        self.assertEqual([(event.count, event.open) for event in self.events()], [(0, True)])
        self.run_for(15.0)
        self.assertEqual([(event.count, event.open) for event in self.events()], [(0, True), (1, False)])
        self.assertLess(begun, self.clock.seconds())
        waiting.cancel()
        self.failureResultOf(waiting)
        self.ended(consumer.close())

    def test_events_are_sent_until_a_broker_has_them(self) -> None:
        """They go over the consumer's own connections."""
        self.produce([b"one"])
        self.broker.refuse = lambda part: PartitionOffline("no")
        consumer = self.consumer()
        self.read(consumer, 1)
        waiting = consumer.create_message_streams("t", 1)[0]
        self.run_for(12.0)
        self.assertEqual(self.events(), [])
        self.broker.refuse = lambda part: None
        self.run_for(6.0)
        waiting.close()
        self.ended(consumer.close())
        self.assertEqual(sum(event.count for event in self.events()), 1)
        self.assertEqual([event.sequence for event in self.events()], [0, 1])
