"""Records that the native client sends, for clients of Kafka to read."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from logd import Message, Producer
from logd.testing import KafkaBroker
from logd.testing.kafka_brokers.private_reactor import ReactorThread
from tests.kafka_clients.drivers.digest import record


def produce_native(broker: KafkaBroker, topic: str, numbers: range, partitions: int = 1) -> None:
    """Send records by a native client, round the partitions."""
    for partition in range(partitions):
        messages = []
        for number in numbers[partition::partitions]:
            key, value = record(number)
            messages.append(Message(value, key=key, timestamp=1_600_000_000_000 + number))
        send_native(broker, topic, messages, partition)


def send_native(broker: KafkaBroker, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
    """Send messages by a native client to a partition."""
    thread = ReactorThread("native-producer")
    thread.start()

    async def send() -> None:
        producer = Producer([broker.native_address], reactor=thread.reactor)
        try:
            for at in range(0, len(messages), 500):
                await producer.send(topic, messages[at : at + 500], partition=partition)
        finally:
            await producer.close()

    try:
        thread.wait(lambda: Deferred.fromCoroutine(send()))
    finally:
        thread.stop()
