"""Clients of today's Kafka on replicated topics: an idempotent producer of librdkafka while its leader is killed."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from logd.testing.processes.broker import free_port
from tests.integration.clusters import ClusterTestCase
from tests.integration.peers import PATIENCE

MESSAGES = 600


class KafkaClientTests(ClusterTestCase):
    """Three brokers with listeners for clients of today's Kafka."""

    count = 3

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits for it
        """Give each broker a port for Kafka's clients."""
        self.ports = {number: free_port() for number in range(1, self.count + 1)}
        return super().setUp()

    def broker(self, number: int, name: str = "") -> Any:
        """Start a broker."""
        self.options = ("--kafka-listen", f"tcp:{self.ports[number]}:interface=127.0.0.1")
        return super().broker(number, name)

    async def test_nothing_is_lost_or_doubled_when_a_leader_is_killed(self) -> None:
        """Its batches are known to the next leader; metadata name leader and in-sync replicas."""
        await deferToThread(self.produce_and_consume)

    def produce_and_consume(self) -> None:
        """Create the topic, produce with a kill in the midst, then read everything."""
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        settings: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
        new = NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})
        admin = AdminClient(settings)
        admin.create_topics([new])["t"].result(PATIENCE)
        producer = confluent_kafka.Producer({**settings, "enable.idempotence": True, "linger.ms": 2})
        wrong: list[Any] = []
        acknowledged: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                wrong.append(error)
            else:
                acknowledged.append(message.offset())

        for number in range(MESSAGES):
            producer.produce("t", b"%d" % number, partition=0, on_delivery=delivered)
            producer.poll(0.001)
            if number == MESSAGES // 2:
                while sorted((found := self.partition(producer, "t")).isrs) != [1, 2, 3]:
                    time.sleep(0.05)
                self.brokers[found.leader - 1].kill()
        self.assertEqual((producer.flush(PATIENCE), wrong), (0, []))
        self.assertEqual(len(set(acknowledged)), MESSAGES)
        consumer = confluent_kafka.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        read: list[bytes] = []
        while len(read) < MESSAGES:
            message = consumer.poll(PATIENCE)
            assert message is not None, f"{len(read)} messages came"
            if message.error() is None:
                read.append(message.value() or b"")
        self.assertEqual(read, [b"%d" % number for number in range(MESSAGES)])
        self.assertIsNone(consumer.poll(0.5))
        consumer.close()

    async def test_a_consumer_notices_that_an_unclean_election_took_messages_back(self) -> None:
        """It asks the new leader where the epoch of its position ended there, instead of reading other messages."""
        await deferToThread(self.lose_messages)

    def lose_messages(self) -> None:
        """Let broker 1 alone have the last messages, then broker 2 lead without them."""
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 500,
        }
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("u", 1, replica_assignment=[[1, 2]])])["u"].result(PATIENCE)
        producer = confluent_kafka.Producer(settings)
        consumer = confluent_kafka.Consumer({**settings, "group.id": "g", "auto.offset.reset": "error"})
        part = confluent_kafka.TopicPartition("u", 0, 0)
        consumer.assign([part])
        self.send(producer, 20)
        self.poll(consumer, 20)
        self.brokers[1].kill()
        while self.partition(admin, "u").isrs != [1]:
            time.sleep(0.05)
        self.send(producer, 20)
        self.poll(consumer, 20)
        self.brokers[0].kill()
        self.brokers[1].start()
        while self.partition(admin, "u").leader != 2:
            part = confluent_kafka.TopicPartition("u", 0)
            asked = admin.elect_leaders(confluent_kafka.ElectionType.UNCLEAN, [part])
            asked.exception(PATIENCE)
        self.send(producer, 60)  # so that the position is one of other messages
        message = consumer.poll(PATIENCE)
        assert message is not None
        error = message.error()
        assert error is not None, message.value()
        self.assertIn("truncation detected", error.str())
        consumer.close()

    def partition(self, client: Any, topic: str) -> Any:
        """Return the description of a topic's first partition."""
        return client.list_topics(topic, PATIENCE).topics[topic].partitions[0]

    def send(self, producer: Any, count: int) -> None:
        """Produce messages until they are acknowledged."""
        for number in range(count):
            producer.produce("u", b"%d" % number, partition=0)
        self.assertEqual(producer.flush(PATIENCE), 0)

    def poll(self, consumer: Any, count: int) -> None:
        """Take messages."""
        for _ in range(count):
            message = consumer.poll(PATIENCE)
            assert message is not None and message.error() is None, message and message.error()
