"""Tests of producers of batches whose topic or broker takes no batches: they send entries, and lose nothing."""

from __future__ import annotations

from typing import Any

from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from logd.errors import InvalidMessage, MessageTooLarge, PublishFailed, WireError
from logd.protocol.loops import decode_set, ends_of_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.metadata import MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.client.producers import PublishTestCase

MAGIC_AT = 4
BATCH_MAGIC = 3


class FallbackTests(PublishTestCase):
    """A broker that takes no batches, or no longer, and producers of batches."""

    def setUp(self) -> None:
        """Refuse batches from the moment that ``refusing`` is set."""
        super().setUp()
        self.refusing = True
        self.broker.refuse = self.refuse

    def refuse(self, part: ProducePart) -> WireError | None:
        """Answer as a broker that does not know magic 3, and, with message.format = 0.7, no magic 2."""
        magics = {0, 1} if self.broker.formats.get("t") == "0.7" else {0, 1, 2}
        if self.refusing and not self.magics(part.message_set) <= magics:
            return InvalidMessage("no")
        return None

    def magics(self, data: bytes) -> set[int]:
        """Return the magics of the entries of a set."""
        found, at = set(), 0
        while at < len(data):
            found.add(data[at + MAGIC_AT])
            at += 4 + int.from_bytes(data[at : at + 4], "big")
        return found

    def attempts(self) -> list[set[int]]:
        """Return the magics of each set that was sent, stored or not."""
        return [self.magics(p.message_set) for r in self.broker.requests if isinstance(r, ProduceAck) for p in r.parts]

    def change(self) -> None:
        """Set message.format as `logd topics set` does, of which the producer is not told."""
        self.refusing = True
        self.broker.formats["t"] = "0.7"

    def check_all(self, count: int) -> None:
        """Check that each message is in the log once, in order, and that nothing was reported."""
        self.assertEqual(self.log.payloads(), [b"%d" % number for number in range(count)])
        self.assertEqual(self.told, [])

    def test_a_broker_of_an_earlier_release_gets_entries(self) -> None:
        """Of sends, sets and published messages, in order; the refused batch is encoded anew."""
        self.broker.old_release = True
        producer = self.producer()
        sending = [producer.send("t", b"0"), producer.send("t", [b"1", Message(b"2", key=b"k")])]
        producer.publish("t", b"3")
        producer.publish("t", b"4", b"a key", 5, [("a", b"b")])
        self.flushed(producer)
        self.check_all(5)
        self.assertEqual(self.attempts(), [{BATCH_MAGIC}, {0, 2}])
        one, two = map(self.successResultOf, sending)
        self.assertEqual((one.first_id, one.next_position, two.first_id), (0, 10, 10))

    def test_one_refusal_is_enough(self) -> None:
        """Of a broker that knows no batches: later messages go out as entries at once."""
        self.broker.old_release = True
        producer = self.producer()
        for number in range(6):
            producer.publish("t", b"%d" % number)
            self.flushed(producer)
        self.check_all(6)
        self.assertEqual(self.attempts().count({BATCH_MAGIC}), 1)

    def test_a_change_while_batches_are_in_flight_keeps_the_order(self) -> None:
        """Batches in flight, those that wait and the open one are encoded anew, each in its place."""
        self.refusing = False
        producer = self.producer(batch_messages=3, max_in_flight=4)
        number = 0
        for turn in range(40):
            for _ in range(20):
                producer.publish("t", b"%d" % number)
                number += 1
            self.run_for(0.0007)
            if turn == 20:
                self.change()
        self.flushed(producer)
        self.check_all(number)
        self.assertLessEqual({0, BATCH_MAGIC}, self.magics(bytes(self.log.data)))
        self.assertEqual(producer.buffered_bytes, 0)

    def test_results_have_the_places_after_a_change(self) -> None:
        """The places of entries, for messages that were counted as parts of a batch."""
        self.refusing = False
        producer = self.producer(linger=0.01)
        producer.publish("t", b"0")
        self.flushed(producer)
        base = self.log.end
        self.change()
        sending = [producer.send("t", [b"1", b"2"]), producer.send("t", b"3"), producer.send("t", [b"4", b"5"])]
        self.flushed(producer)
        places = [(each.first_id - base, each.next_position - base) for each in map(self.successResultOf, sending)]
        self.assertEqual(places, [(0, 20), (20, 30), (30, 50)])
        self.check_all(6)

    def test_published_before_the_topic_is_known(self) -> None:
        """They are counted as parts of a batch at first; the places of sends behind them are right all the same."""
        self.broker.formats["t"] = "0.7"
        producer = self.producer()
        producer.publish("t", b"0")
        sending = producer.send("t", [b"1", b"2"])
        self.flushed(producer)
        sent = self.successResultOf(sending)
        self.assertEqual((sent.first_id, sent.next_position), (10, 30))

    def test_what_0_7_cannot_read_fails_alone(self) -> None:
        """The other messages of its batch are stored."""
        self.refusing = False
        producer = self.producer(linger=0.01)
        producer.publish("t", b"0")
        self.flushed(producer)
        self.change()
        for number in range(1, 8):
            producer.publish("t", b"%d" % number)
        producer.publish("t", b"keyed", b"k", partition=0)
        sending = producer.send("t", b"sent with key", key=b"k")
        for number in range(8, 12):
            producer.publish("t", b"%d" % number)
        flushing = producer.flush()
        self.run_for(1.0)
        self.failureResultOf(flushing, PublishFailed)
        self.failureResultOf(sending, InvalidMessage)
        ((topic, count, error),) = self.told
        self.assertEqual((topic, count, type(error)), ("t", 1, InvalidMessage))
        self.told.clear()
        self.check_all(12)
        producer.publish("t", b"keyed", b"k")
        self.run_for()
        self.assertIn("message.format = 0.7", str(self.told[-1][2]))
        self.assertEqual(producer.buffered_bytes, 0)

    def test_compressed_batches_are_encoded_anew(self) -> None:
        """By a codec that 0.7 knows, or none."""
        for codec, expected in (("gzip", {1}), ("zstd", {0}), ("lz4", {0})):
            self.refusing = False
            self.log.data.clear()
            self.broker.formats.clear()
            producer = self.producer(compression=codec, linger=0.01)
            payloads = [b"%d" % number * 200 for number in range(5)]
            for payload in payloads[:2]:
                producer.publish("t", payload)
            self.flushed(producer)
            self.change()
            first = self.log.end
            for payload in payloads[2:4]:
                producer.publish("t", payload)
            self.flushed(producer)
            producer.publish("t", payloads[4])
            self.flushed(producer)
            self.assertEqual(self.magics(bytes(self.log.data[first:])), expected)
            self.assertEqual(self.log.payloads(), payloads)
            self.assertEqual(self.told, [])
            self.assertEqual(producer.buffered_bytes, 0)

    def test_sets_with_their_own_compression_are_encoded_anew(self) -> None:
        """Each as wrappers of gzip, which readers of 0.7 know."""
        producer = self.producer()
        payloads = [b"%d" % number * 100 for number in range(6)]
        sending = [producer.send("t", MessageSet(map(Message, payloads[at : at + 3]), "zstd")) for at in (0, 3)]
        self.run_for()
        one, two = map(self.successResultOf, sending)
        self.assertEqual((one.first_id, one.next_position, two.next_position), (0, two.first_id, self.log.end))
        self.assertEqual(self.magics(bytes(self.log.data)), {1})
        self.assertEqual(self.log.payloads(), payloads)
        self.assertEqual(producer.buffered_bytes, 0)

    def test_metadata_that_names_the_setting_is_enough(self) -> None:
        """Without acknowledgements nothing else tells of the change."""
        self.refusing = False
        producer = self.producer(metadata_age=2.0, retry_delay=0.1)
        producer.publish("t", b"0")
        self.flushed(producer)
        self.change()
        lingering: Any = producer
        self.run_for(2.0)
        lingering.send("t", b"1")
        self.run_for(3.0)
        producer.publish("t", b"2")
        self.flushed(producer)
        self.check_all(3)
        self.assertEqual(self.magics(bytes(self.log.data[-22:])), {0})

    def warnings(self) -> list[str]:
        """Return the warnings that will have been logged, in a list that grows."""
        found: list[str] = []

        def keep(event: LogEvent) -> None:
            if event["log_level"].name == "warn":
                found.append(formatEvent(event))

        observer: Any = keep
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        return found

    def test_a_damaged_batch_changes_no_format(self) -> None:
        """Its messages are sent as entries; those behind it go out as batches, and the warning comes once."""
        warned = self.warnings()
        self.refusing = False
        damaged = [0, 1, 4, 9]
        self.broker.refuse = lambda part: (
            InvalidMessage("checksum mismatch")
            if self.magics(part.message_set) == {BATCH_MAGIC}
            and any(b"%d" % n in [m.payload for m in decode_set(part.message_set).messages] for n in damaged)
            else None
        )
        producer = self.producer(batch_messages=1, max_in_flight=4)
        for number in range(8):
            producer.publish("t", b"%d" % number)
        self.flushed(producer)
        for number in range(8, 12):
            producer.publish("t", b"%d" % number)
            self.flushed(producer)
        self.check_all(12)
        self.assertEqual(
            [self.magics(bytes(each)) for each in self.entries()],
            [{0} if n in damaged else {BATCH_MAGIC} for n in range(12)],
        )
        self.assertEqual(len(warned), 1, warned)
        self.assertIn("topic 't', partition 0: the broker refused a message", warned[0])
        self.assertEqual(producer.buffered_bytes, 0)

    def entries(self) -> list[bytes]:
        """Return the entries of the log."""
        data = bytes(self.log.data)
        ends = ends_of_set(data)
        return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def test_batches_are_sent_again_once_the_setting_allows_them(self) -> None:
        """``metadata_age`` after the fall back at the earliest, by the metadata read then."""
        self.refusing = False
        producer = self.producer(metadata_age=2.0, batch_messages=2)
        producer.publish("t", b"0")
        self.flushed(producer)
        self.change()
        producer.publish("t", b"1")
        self.flushed(producer)
        self.run_for(3.0)
        producer.publish("t", b"2")
        self.flushed(producer)
        self.refusing = False
        self.broker.formats["t"] = "any"
        number = 3
        while self.attempts()[-1] != {BATCH_MAGIC} and number < 1000:  # in pieces that never leave the producer idle
            producer.publish("t", b"%d" % number)
            producer.publish("t", b"%d" % (number + 1), b"k" if self.attempts()[-1] == {BATCH_MAGIC} else None)
            number += 2
            self.run_for(0.01)
        self.assertLess(number, 1000)
        self.flushed(producer)
        self.check_all(number)
        self.assertEqual([self.magics(each) for each in self.entries()[:3]], [{BATCH_MAGIC}, {0}, {0}])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_batches_are_tried_again_where_the_broker_was_of_an_earlier_release(self) -> None:
        """It may have been replaced; each try costs one refused batch, and loses nothing."""
        self.broker.old_release = True
        producer = self.producer(metadata_age=2.0)
        number = 0
        for _ in range(50):
            producer.publish("t", b"%d" % number)
            number += 1
            self.flushed(producer, 0.2)
        self.assertIn(self.attempts().count({BATCH_MAGIC}), (3, 4))
        self.broker.old_release = self.refusing = False
        for _ in range(30):
            producer.publish("t", b"%d" % number)
            number += 1
            self.flushed(producer, 0.2)
        self.check_all(number)
        self.assertEqual(self.magics(self.entries()[-1]), {BATCH_MAGIC})

    def test_a_broker_that_gives_no_reason_changes_no_format(self) -> None:
        """The question is asked again with the next refused batch."""
        producer = self.producer(request_timeout=0.5)
        producer.publish("t", b"0")
        self.flushed(producer)
        self.broker.silent = (MetadataV1,)
        producer.publish("t", b"1")
        self.flushed(producer)
        producer.publish("t", b"2")
        self.flushed(producer)
        self.check_all(3)
        self.broker.silent = ()
        self.broker.formats["t"] = "0.7"
        for number in (3, 4):
            producer.publish("t", b"%d" % number)
            self.flushed(producer)
        self.check_all(5)
        self.assertEqual(self.attempts()[-1], {0})
        self.assertEqual(self.attempts()[-2:], [{0}, {0}])

    def test_other_refusals_change_no_format(self) -> None:
        """A batch that is too large, for instance."""
        self.refusing = False
        producer = self.producer(on_too_large="skip")
        self.broker.refuse = lambda part: MessageTooLarge("no") if b"large" in part.message_set else None
        producer.publish("t", b"large")
        self.run_for()
        producer.publish("t", b"0")
        self.flushed(producer)
        self.assertEqual(self.attempts()[-1], {BATCH_MAGIC})
