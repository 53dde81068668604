"""confluent-kafka, Apache Kafka's C client for Python."""

from __future__ import annotations

from typing import Any

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import Load, Stopwatch
from logd.errors import LogdError


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: ``produce`` for each message, with no callback for each."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"bootstrap.servers": address, "acks": load.acks}
    if load.batch:
        settings |= {"batch.num.messages": load.batch}
    elif load.rate:
        settings |= {"linger.ms": 0}
    failures: list[Any] = []
    producer = Producer({**settings, "error_cb": failures.append})
    producer.list_topics(load.topic)
    send, topic = producer.produce, load.topic
    watch.start()
    for payload in load.payloads():
        while True:
            try:
                send(topic, payload, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if load.rate:
            producer.poll(0)
    if producer.flush(120) or failures:
        raise LogdError(f"not every message was delivered: {failures[:1]}")
    watch.stop(load.messages)


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: lists of messages by ``consume``, the fastest way there is."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(load.topic, 0, OFFSET_BEGINNING)])
    watch.start()
    count = 0
    while count < load.messages:
        for message in consumer.consume(500, timeout=0.1 if not load.rate else 0.001):
            if message.error():
                raise LogdError(str(message.error()))
            payload = message.value()
            count += 1
            if load.rate and payload is not None:
                watch.note(payload)
    watch.stop(count)
    consumer.close()


if __name__ == "__main__":
    run_client(produce, consume)
