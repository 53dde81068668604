"""confluent-kafka, Apache Kafka's C client for Python."""

from __future__ import annotations

import time
from typing import Any

from attrs import frozen

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import NAP_SECONDS, PATIENCE_SECONDS, STORED_SECONDS, Load, Stopwatch
from logd.errors import LogdError


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: ``produce`` for each message, with no callback for each. A first message connects it."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"bootstrap.servers": address, "acks": load.acks}
    if load.batch:
        settings |= {"batch.num.messages": load.batch}
    elif load.rate:
        settings |= {"linger.ms": 0}
    failures: list[Any] = []
    producer = Producer({**settings, "error_cb": failures.append})
    producer.list_topics(load.topic, timeout=STORED_SECONDS)  # makes the topic, where the broker does that
    send, topic = producer.produce, load.topic
    send(topic, bytes(load.size), partition=0)
    if producer.flush(PATIENCE_SECONDS):
        raise LogdError(f"the first message was not delivered: {failures[:1]}")
    log = _Log.open(address, load.topic) if load.acks == 0 else None
    begin = log.await_end(1) if log else 0
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
    if producer.flush(PATIENCE_SECONDS) or failures:
        raise LogdError(f"not every message was delivered: {failures[:1]}")
    if log:
        log.await_end(begin + load.messages)
    watch.stop(load.messages)


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: lists of messages by ``consume``, the fastest way there is."""
    log = _Log.open(address, load.topic)
    consumer = log.consumer
    watch.start()
    consumer.assign([log.partition])
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


@frozen
class _Log:
    """A consumer that is connected to the leader of a topic's partition, and fetches nothing yet."""

    consumer: Any
    partition: Any

    @classmethod
    def open(cls, address: str, topic: str) -> _Log:
        """Connect, and wait until the topic has a leader: the producer makes it. Raises LogdError.

        Left to the first fetch, connecting takes half a second.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
        log = cls(consumer, TopicPartition(topic, 0, 0))
        deadline = time.monotonic() + STORED_SECONDS
        while True:
            try:
                consumer.list_topics(topic, timeout=STORED_SECONDS)
                log.end()
                return log
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise LogdError(f"topic {topic} has no leader: {error}") from None
                time.sleep(NAP_SECONDS)

    def end(self) -> int:
        """Return the end of the partition's log, by a question to the leader."""
        return int(self.consumer.get_watermark_offsets(self.partition, timeout=STORED_SECONDS)[1])

    def await_end(self, least: int) -> int:
        """Wait until the log has so many messages, which nobody acknowledges; return the end. Raises LogdError."""
        deadline = time.monotonic() + STORED_SECONDS
        while (end := self.end()) < least:
            if time.monotonic() > deadline:
                raise LogdError(f"of {least} messages without acknowledgement only {end} arrived")
            time.sleep(NAP_SECONDS)
        return end


if __name__ == "__main__":
    run_client(produce, consume)
