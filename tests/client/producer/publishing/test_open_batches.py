"""Tests of single messages with keys, times and headers that join the open batch of their partition, in any format."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer.formats import size_of
from logd.client.producer.router import Router
from logd.errors import ClientClosed, InvalidMessage
from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from tests.client.producers import PublishTestCase


class OpenBatchTests(PublishTestCase):
    """Messages that join, and those that may not."""

    def setUp(self) -> None:
        """Count the messages that take the long way."""
        super().setUp()
        self.looked_up: list[tuple[str, bytes | None, int | None]] = []
        self.patch(Router, "batch_for", self.counted(Router.batch_for))

    def counted(self, batch_for: Any) -> Any:
        """Return the method, which notes its calls."""

        def noting(router: Router, topic: str, key: bytes | None, partition: int | None, size: int) -> Any:
            self.looked_up.append((topic, key, partition))
            return batch_for(router, topic, key, partition, size)

        return noting

    def known(self, topic: str = "t", partitions: int = 1, **settings: Any) -> Any:
        """Return a producer that knows a topic, and has no open batch."""
        self.logs = self.broker.add(topic, partitions)
        producer = self.producer(**{"linger": 0.05, **settings})
        for partition in self.logs:
            sending = producer.send(topic, b"first", partition=partition)
            self.flushed(producer)
            self.successResultOf(sending)
        self.looked_up.clear()
        return producer

    def stored(self) -> list[list[Message]]:
        """Return the messages of each partition, without the first."""
        return [decode_set(bytes(log.data)).messages[1:] for log in self.logs.values()]

    def test_a_partition_is_looked_up_once_for_a_batch(self) -> None:
        """Whatever the messages have beside their payload."""
        producer = self.known("p", 3)
        for number in range(60):
            key = b"%d" % (number % 20)
            producer.publish("p", b"a", key)
            producer.send("p", b"b", key=key)
            producer.send("p", Message(b"c", key=key, timestamp=5))
            producer.publish("p", None, key, 7, [("h", b"w")])
        self.assertEqual(len(self.looked_up), 3)
        for number in range(60):
            producer.publish("p", b"d", timestamp=number)
            producer.publish("p", b"e", b"k", number, partition=2)
        self.assertEqual(len(self.looked_up), 5)
        self.flushed(producer)
        self.assertEqual(sum(map(len, self.stored())), 360)
        self.assertEqual((producer.buffered_bytes, self.told), (0, []))

    def test_it_is_looked_up_again_for_the_next_batch(self) -> None:
        """A batch that has left, or is full, takes nothing."""
        producer = self.known("p", 2, batch_messages=10)
        for _ in range(3):
            producer.publish("p", b"v", b"k")
        self.flushed(producer)
        for number in range(20):
            producer.publish("p", b"%d" % number, b"k")
        self.flushed(producer)
        self.assertEqual(len(self.looked_up), 3)
        self.assertEqual(sorted(self.sets()), [1, 1, 3, 10, 10])

    def test_any_messages_stay_in_order_and_are_counted(self) -> None:
        """By random: each send learns its place, and the buffer is empty at the end."""
        random = Random(7)
        producer = self.known("p", 3, batch_bytes=700, buffer_bytes=200_000)
        given: dict[bytes, list[Message]] = {}
        sends: list[tuple[Message, Any]] = []
        for number in range(2000):
            key = random.choice((b"k1", b"k2", b"k3", b"key 4"))
            message = Message(
                random.choice((b"", b"%d" % number, b"x" * random.randrange(300))),
                key=key,
                timestamp=random.choice((None, number)),
                headers=random.choice(((), (("number", b"%d" % number),))),
            )
            payload, _, timestamp, headers = message[:4]
            if random.random() < 0.5:
                producer.publish("p", payload, key, timestamp, headers)
            elif random.random() < 0.5:
                sends.append((message, producer.send("p", message)))
            else:
                message = Message(payload, key=key)
                sends.append((message, producer.send("p", payload, key=key)))
            given.setdefault(key, []).append(message)
            if random.random() < 0.05:
                self.run_for(0.02)
        self.flushed(producer)
        partitions = self.stored()
        for key, messages in given.items():
            (found,) = [each for each in ([m for m in part if m.key == key] for part in partitions) if each]
            self.assertEqual(found, messages)
        for message, sending in sends:
            sent = self.successResultOf(sending)
            (found_there,) = [m for m in partitions[sent.partition] if m.id == sent.first_id and m == message]
            self.assertEqual(found_there.next_position, sent.next_position)
        self.assertEqual((producer.buffered_bytes, self.told), (0, []))
        self.assertLess(len(self.looked_up), 1500)

    def test_their_sizes_are_those_of_the_format(self) -> None:
        """Otherwise a batch could become larger than is allowed, or memory be counted wrong."""
        producer = self.known(linger=10.0)
        for payload, key, timestamp, headers in (
            (b"x", b"k", None, ()),
            (b"x", b"k", 5, ()),
            (b"x", None, 5, ()),
            (None, b"k", None, ()),
            (b"xyz", b"", None, (("h", None),)),
            (bytearray(b"x"), None, None, ()),
        ):
            for _ in range(3):
                producer.publish("t", payload, key, timestamp, headers, partition=0)
        batch = producer._router.queues["t"][0].accumulator.open
        sizes = [size_of(record, batch.form) for record in batch.records]
        self.assertEqual((len(sizes), batch.bytes), (18, batch.form.head_bytes + sum(sizes)))
        self.assertEqual(producer.buffered_bytes, batch.held)

    def test_a_topic_that_grows_moves_all_keys_at_once(self) -> None:
        """No message of a key comes to its former partition after one that came to its new one."""
        producer = self.known("p", 2, metadata_age=1.0)
        keys = [b"%d" % number for number in range(20)]
        for round_ in range(40):
            for key in keys:
                producer.publish("p", b"%d" % round_, key)
            if round_ == 10:
                for number in range(2, 5):
                    self.logs[number] = type(self.logs[0])()
            self.run_for(0.2)
        self.flushed(producer)
        used = {key: [p for p, log in self.logs.items() for m in decode_set(bytes(log.data)).messages if m.key == key]
                for key in keys}  # fmt: skip
        self.assertGreater(len({p for each in used.values() for p in each}), 2)
        moved = set()
        for key in keys:
            rounds = {p: [int(m.payload or b"") for m in decode_set(bytes(log.data)).messages if m.key == key]
                      for p, log in self.logs.items()}  # fmt: skip
            parts = sorted((each for each in rounds.values() if each), key=lambda each: each[0])
            self.assertEqual([number for part in parts for number in part], list(range(40)))
            moved |= {part[0] for part in parts[1:]}
        self.assertEqual(len(moved), 1, moved)

    def test_a_topic_of_0_7_takes_payloads_alone(self) -> None:
        """A time may not come in beside payloads that are allowed."""
        self.broker.formats["t"] = "0.7"
        producer = self.known()
        producer.publish("t", b"plain")
        producer.publish("t", b"named", partition=0)
        routed = producer.send("t", Message(b"routed"), key=b"k")  # a key for the choice of the partition alone
        for partition in (None, 0):
            producer.publish("t", b"x", timestamp=5, partition=partition)
            producer.publish("t", b"x", b"k", partition=partition)
        self.run_for()
        self.flushed_with_failures(producer)
        self.assertEqual([type(error) for _, _, error in self.told], [InvalidMessage] * 4)
        self.assertEqual(sorted(m.payload or b"" for m in self.stored()[0]), [b"named", b"plain", b"routed"])
        self.successResultOf(routed)

    def flushed_with_failures(self, producer: Any) -> None:
        """Flush; the failures of published messages are told."""
        flushing = producer.flush()
        self.run_for(1.0)
        self.failureResultOf(flushing)

    def test_a_closed_producer_takes_nothing(self) -> None:
        """Although a batch is open."""
        producer = self.known(linger=5.0)
        producer.publish("t", b"x", b"k")
        closing = producer.close()
        self.assertRaises(ClientClosed, producer.publish, "t", b"x", b"k")
        self.failureResultOf(producer.send("t", b"x", key=b"k"), ClientClosed)
        self.run_for(1.0)
        self.successResultOf(closing)
        self.assertEqual([m.payload for m in self.stored()[0]], [b"x"])

    def test_a_batch_whose_only_send_was_taken_back_takes_no_more(self) -> None:
        """The next message begins another one."""
        producer = self.known(linger=5.0)
        first = producer.send("t", b"1", key=b"k")
        first.addErrback(lambda failure: failure.trap(CancelledError))
        first.cancel()
        second = producer.send("t", b"2", key=b"k")
        third = producer.send("t", b"3", key=b"k")
        third.addErrback(lambda failure: failure.trap(CancelledError))
        third.cancel()
        self.flushed(producer)
        self.successResultOf(second)
        self.assertEqual([m.payload for m in self.stored()[0]], [b"2"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_partitioner_of_the_application_is_asked_for_each(self) -> None:
        """It may choose by anything."""
        asked: list[bytes | None] = []

        def choose(_: str, key: bytes | None, partitions: Any) -> int:
            asked.append(key)
            return len(asked) % len(partitions)

        producer = self.known("p", 2, partitioner=choose)
        for number in range(10):
            producer.publish("p", b"v", b"%d" % number)
        self.flushed(producer)
        self.assertEqual(asked, [b"%d" % number for number in range(10)])
        self.assertEqual([len(each) for each in self.stored()], [5, 5])


class PlainOpenBatchTests(OpenBatchTests):
    """The same with an entry for each message."""

    form = "plain"
