"""kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from .digest import Digest, record, run, shares

#: Records after which it waits for all answers: its queue has no bound, and after two minutes there it gives
#: records up.
_UNANSWERED = 20_000


def produce(bootstrap: str, topic: str, count: int, codecs: str, **more: Any) -> dict[str, Any]:
    """See ``digest``."""
    errors: list[str] = []
    for codec, numbers in shares(count, codecs.split(",")):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=5, **more
        )
        for number in numbers:
            key, value = record(number)
            producer.send(topic, value, key, partition=0).add_errback(lambda error: errors.append(repr(error)))
            if (number + 1) % _UNANSWERED == 0:
                producer.flush()
        producer.flush()
        producer.close()
    return {"errors": len(errors), "first": errors[:1]}


def idempotent(bootstrap: str, topic: str, count: int, codecs: str) -> dict[str, Any]:
    """See ``digest``."""
    return produce(bootstrap, topic, count, codecs, enable_idempotence=True)


def consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """See ``digest``."""
    digest = Digest()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    while digest.count < count:
        for message in consumer.poll(1000, max_records=count - digest.count).get(partition, ()):
            digest.add(message.offset, message.timestamp, message.key, message.value)
    consumer.close()
    return digest.result()


def look(bootstrap: str, topic: str, offset: int, milliseconds: int) -> dict[str, Any]:
    """See ``digest``."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partition = TopicPartition(topic, 0)
    found = consumer.offsets_for_times({partition: milliseconds})[partition]
    consumer.assign([partition])
    consumer.seek(partition, offset)
    sought = next(consumer).offset
    consumer.close()
    return {"sought": sought, "found": found.offset}


def member(bootstrap: str, topic: str, group: str) -> None:
    """See ``digest``."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
        auto_commit_interval_ms=200,
    )
    for message in consumer:
        print(message.value.split(b"-")[0].decode(), flush=True)


run(produce=produce, idempotent=idempotent, consume=consume, look=look, member=member)
