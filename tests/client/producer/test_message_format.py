"""Tests of producers on topics with message.format = 0.7: they send what clients of 0.7 read, and refuse all else."""

from __future__ import annotations

from typing import Any

from logd.errors import InvalidMessage
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from tests.client.producers import ProducerTestCase

REFUSED = (
    (Message(b"x", key=b"k"), "a key"),
    (Message(b"x", timestamp=5), "a time"),
    (Message(b"x", headers=[("a", b"b")]), "headers"),
)


class LegacyTopicTests(ProducerTestCase):
    """A topic of 0.7, and one that takes any message."""

    def setUp(self) -> None:
        """Make both topics."""
        super().setUp()
        self.broker.formats["t"] = "0.7"
        self.other = self.broker.add("u")[0]

    def magics(self) -> set[int]:
        """Return the magics of the entries in the log."""
        found, at, data = set(), 0, bytes(self.log.data)
        while at < len(data):
            found.add(data[at + 4])
            at += 4 + int.from_bytes(data[at : at + 4], "big")
        return found

    def test_plain_messages_are_magic_0_in_every_format(self) -> None:
        """Before the topic is known, and after; sets and single messages, with and without a Deferred."""
        for form in ("plain", "batch"):
            producer = self.producer(format=form)
            for _ in range(2):
                sending = [producer.send("t", b"one"), producer.send("t", [b"two", Message(b"three")])]
                producer.publish("t", b"four")
                self.run_for()
                for each in sending:
                    self.successResultOf(each)
            self.assertEqual(self.magics(), {0})
            self.assertEqual(self.log.payloads(), [b"one", b"two", b"three", b"four"] * (2 if form == "plain" else 4))

    def test_results_have_the_places_of_entries(self) -> None:
        """A producer of batches knows where each message of such a topic is."""
        producer = self.producer(format="batch")
        sending = [producer.send("t", b"a"), producer.send("t", [b"bb", b"ccc"])]
        self.run_for()
        places = [(sent.first_id, sent.next_position) for sent in map(self.successResultOf, sending)]
        self.assertEqual(places, [(0, 10), (10, 33)])

    def test_wrappers_are_gzip_and_snappy(self) -> None:
        """In every format of the producer; zstd and lz4 are refused with the setting's name."""
        for form in ("plain", "batch"):
            for codec in ("gzip", "snappy"):
                producer = self.producer(format=form, compression=codec)
                self.result(producer.send("t", [b"x" * 1000] * 3))
                self.assertEqual(self.magics(), {1})
            producer = self.producer(format=form, compression="zstd")
            self.check_refused(producer.send("t", [b"x" * 1000] * 3), "compressed with zstd")
            self.result(producer.send("u", [b"x" * 1000] * 3))
        self.check_refused(self.producer().send("t", MessageSet([Message(b"x")] * 9, "zstd")), "compressed with zstd")

    def test_what_0_7_cannot_read_is_refused(self) -> None:
        """The error names the setting; nothing of the set is sent, and other topics take it."""
        for settings in ({}, {"format": "batch"}, {"acks": 0, "batch_messages": 1}):
            producer = self.producer(**settings)
            for message, what in REFUSED:
                for _ in range(2):
                    self.check_refused(producer.send("t", message), what)
                    self.check_refused(producer.send("t", [b"plain", message]), what)
                self.result(producer.send("u", message))
        self.check_refused(self.producer().send("t", b"x", key=b"k"), "a key")
        self.assertEqual(bytes(self.log.data), b"")

    def test_published_messages_are_refused_too(self) -> None:
        """By on_error, as other failures."""
        told: list[Any] = []
        producer = self.producer(on_error=lambda topic, count, error: told.append((topic, count, str(error))))
        for message, what in REFUSED:
            for _ in range(2):
                producer.publish("t", message.payload, message.key, message.timestamp, message.headers)
                self.run_for()
                ((topic, count, text),) = told
                self.assertEqual((topic, count), ("t", 1))
                self.assertIn(f"a message with {what} cannot be sent to topic 't': it has message.format = 0.7", text)
                told.clear()
        self.assertEqual(bytes(self.log.data), b"")

    def check_refused(self, sending: Any, what: str) -> None:
        """Check that a send fails at once with the setting's name."""
        self.run_for()
        error = self.failureResultOf(sending, InvalidMessage).value
        self.assertIn(what, str(error))
        self.assertIn("message.format = 0.7", str(error))
