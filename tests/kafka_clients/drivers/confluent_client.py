"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from .digest import Digest, record, run, shares

#: A member that dies is missed soon, and what it has told is committed soon.
_MEMBER = {
    "session.timeout.ms": 2000,
    "heartbeat.interval.ms": 300,
    "auto.commit.interval.ms": 200,
    "enable.auto.offset.store": False,
}


def produce(bootstrap: str, topic: str, count: int, codecs: str, **more: Any) -> dict[str, Any]:
    """See ``digest``."""
    errors: list[str] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            errors.append(str(error))

    for codec, numbers in shares(count, codecs.split(",")):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **more})
        for number in numbers:
            key, value = record(number)
            while True:
                try:
                    producer.produce(topic, value, key, partition=0, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            if not number % 1000:
                producer.poll(0)
        producer.flush()
    return {"errors": len(errors), "first": errors[:1]}


def idempotent(bootstrap: str, topic: str, count: int, codecs: str) -> dict[str, Any]:
    """See ``digest``."""
    return produce(bootstrap, topic, count, codecs, **{"enable.idempotence": True, "log_level": 0})


def _consumer(bootstrap: str, group: str = "none", **more: Any) -> Consumer:
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0, **more}
    )


def consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """See ``digest``."""
    digest = Digest()
    consumer = _consumer(bootstrap, "none", **{"check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while digest.count < count:
        for message in consumer.consume(min(5000, count - digest.count), 1.0):
            if message.error():
                raise RuntimeError(message.error())
            found: Any = message  # every record here has an offset, a key and a value
            digest.add(found.offset(), found.timestamp()[1], found.key(), found.value())
    consumer.close()
    return digest.result()


def look(bootstrap: str, topic: str, offset: int, milliseconds: int) -> dict[str, Any]:
    """See ``digest``."""
    consumer = _consumer(bootstrap)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, milliseconds)], timeout=30)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    consumer.poll(30)
    consumer.seek(TopicPartition(topic, 0, offset))
    deadline = time.monotonic() + 30
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1)
    assert message is not None
    consumer.close()
    return {"sought": message.offset(), "found": found.offset}


def member(bootstrap: str, topic: str, group: str) -> None:
    """See ``digest``."""
    consumer = _consumer(bootstrap, group, **_MEMBER)
    consumer.subscribe([topic])
    while True:
        for message in consumer.consume(100, 0.1):
            value = message.value()
            if not message.error() and value is not None:
                print(value.split(b"-")[0].decode(), flush=True)
                consumer.store_offsets(message)  # not before: what a killed member has committed comes no more


run(produce=produce, idempotent=idempotent, consume=consume, look=look, member=member)
