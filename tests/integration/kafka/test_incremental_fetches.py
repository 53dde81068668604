"""A real client of Kafka that reads many partitions in a fetch session."""

from __future__ import annotations

import time
from random import Random
from urllib.request import urlopen

from kafka import KafkaConsumer, TopicPartition

from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.broker import free_port
from tests.integration.peers import PATIENCE, BrokerTestCase

PARTITIONS = 150


class ManyPartitionsTests(BrokerTestCase):
    """kafka-python's consumer, with more partitions than it would name in each request."""

    def setUp(self) -> None:
        """Start a broker with a listener and its metrics, and make the topic."""
        self.kafka, self.http = free_port(), free_port()
        self.options = (
            *("--kafka-listen", f"tcp:{self.kafka}:interface=127.0.0.1"),
            *("--http", f"tcp:{self.http}:interface=127.0.0.1"),
        )
        super().setUp()
        self.connect().ask(CreateTopic("t", PARTITIONS, {}))
        self.random = Random(5)
        self.put: list[tuple[int, bytes | None]] = []
        self.found: list[tuple[int, bytes | None]] = []

    def watched(self) -> float:
        """Return the number of partitions in the broker's fetch sessions."""
        with urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(each.split()[1]) for each in lines if each.startswith("logd_fetch_session_partitions "))

    def read_what_comes(self, consumer: KafkaConsumer, count: int) -> None:
        """Produce messages to partitions here and there, and read until they are there."""
        native = self.connect()
        for number in range(count):
            partition, payload = self.random.randrange(PARTITIONS), b"%d" % len(self.put)
            data = encode_batch([Message(payload)])
            (part,) = native.ask(ProduceAck(-1, 0, (ProducePart("t", partition, 0, False, data),))).parts
            self.assertEqual(part.error, 0)
            self.put.append((partition, payload))
            if not number % 10:
                self.read(consumer, timeout_ms=0)
        deadline = time.monotonic() + PATIENCE
        while len(self.found) < len(self.put) and time.monotonic() < deadline:
            self.read(consumer, timeout_ms=200)

    def read(self, consumer: KafkaConsumer, timeout_ms: int) -> None:
        """Read some messages."""
        for place, records in consumer.poll(timeout_ms=timeout_ms, max_records=20).items():
            self.found += [(place.partition, record.value) for record in records]

    def has_session(self, consumer: KafkaConsumer) -> bool:
        """Let the consumer fetch; return whether the broker keeps a session for it."""
        self.read(consumer, timeout_ms=20)
        return self.watched() > 0

    def test_a_session_and_a_restart(self) -> None:
        """Every message comes once, also those behind a broker that was killed and has come again."""
        consumer = KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{self.kafka}", enable_auto_commit=False, group_id=None, retry_backoff_ms=20,
            reconnect_backoff_ms=20, reconnect_backoff_max_ms=100,
        )  # fmt: skip
        self.addCleanup(consumer.close)
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        for _ in range(2):
            self.read_what_comes(consumer, 100)
            self.until(lambda: self.has_session(consumer), "a session")
            consumer.pause(*places[:100])
            self.read(consumer, 200)
            consumer.resume(*places[:100])
            self.read_what_comes(consumer, 100)
            self.broker.kill()
            self.broker.start()
        self.read_what_comes(consumer, 100)
        self.assertEqual(sorted(self.found), sorted(self.put))
        for partition in range(PARTITIONS):
            ordered = [value for at, value in self.found if at == partition]
            self.assertEqual(ordered, [value for at, value in self.put if at == partition])
        self.assertNotIn("Traceback", self.broker_log())
